//! The options as flags of a command, made from their table.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use clap::{Arg, ArgMatches, Command, FromArgMatches};

use super::options::OPTIONS;
use super::{Config, print};

/// The flags that were given, with their texts.
#[derive(Debug, Clone, Default)]
pub struct Given(BTreeMap<&'static str, String>);

impl Given {
    /// Each that was given, by its option's key.
    pub(super) fn each(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(key, value)| (*key, value.as_str()))
    }
}

/// The option that every command has anyway.
const DB: &str = "db";

static FLAGS: LazyLock<BTreeMap<&'static str, String>> = LazyLock::new(|| {
    let flag = |key: &str| format!("--{}", key.replace('_', "-"));
    let keys = OPTIONS.iter().map(|option| option.key);
    keys.map(|key| (key, flag(key))).collect()
});

static HELP: LazyLock<BTreeMap<&'static str, String>> = LazyLock::new(|| {
    let defaults = Config::default();
    let help = |option: &super::options::Opt| {
        let default = print::default_text(option, &defaults);
        format!("{} [default: {default}]", option.about)
    };
    let options = OPTIONS.iter();
    options.map(|option| (option.key, help(option))).collect()
});

/// An option's flag.
pub(super) fn flag(key: &str) -> &'static str {
    FLAGS.get(key).map_or("", String::as_str)
}

impl clap::Args for Given {
    fn augment_args(command: Command) -> Command {
        let options = OPTIONS.iter().filter(|option| option.key != DB);
        options.fold(command, |command, option| {
            let help = HELP.get(option.key).map_or("", String::as_str);
            let arg = Arg::new(option.key)
                .long(flag(option.key).trim_start_matches('-'))
                .value_name(option.value)
                .help(help)
                .help_heading(option.group);
            command.arg(match option.is_switch() {
                // The flag alone switches on.
                true => arg.num_args(0..=1).default_missing_value("on"),
                false => arg,
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Given::default();
        given.update_from_arg_matches(matches)?;
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in OPTIONS.iter().filter(|option| option.key != DB) {
            if let Some(value) = matches.get_one::<String>(option.key) {
                self.0.insert(option.key, value.clone());
            }
        }
        Ok(())
    }
}
