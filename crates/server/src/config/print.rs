//! The configuration as a TOML file that says what each line means, and reads back.

use super::options::{OPTIONS, Opt};
use super::{Config, Source};

/// The columns that comments take.
const WIDTH: usize = 96;

/// The whole configuration as it is in force.
pub fn printed(config: &Config) -> String {
    let mut text = String::from(
        "# The configuration of lazybase, as it is in force. Each option may also be a flag of\n\
         # `lazybase serve` or an environment variable; flag > variable > file > default.\n",
    );
    let defaults = Config::default();
    let mut group = "";
    for option in OPTIONS {
        if option.group != group {
            group = option.group;
            text += &format!("\n## {group}\n");
        }
        text.push('\n');
        for line in wrapped(option.about) {
            text += &format!("# {line}\n");
        }
        text += &format!(
            "# {}, {}; default {}; {}\n",
            option.flag(),
            option.variable(),
            default_text(option, &defaults),
            match config.sources.get(option.key) {
                None => "not set".to_owned(),
                Some(Source::Flag) => "set by the flag".to_owned(),
                Some(Source::Variable) => "set by the variable".to_owned(),
                Some(Source::File(path)) => format!("set in {}", path.display()),
            }
        );
        text += &match option.show(config) {
            Some(value) => format!("{} = {}\n", option.key, toml_value(&value)),
            None => format!("# {} = \"{}\"\n", option.key, option.value),
        };
    }
    text
}

/// The value that an option has when nobody sets it.
pub(super) fn default_text(option: &Opt, defaults: &Config) -> String {
    option.show(defaults).unwrap_or_else(|| "none".to_owned())
}

/// A number as a number, everything else as a text: a folder with the name 007 is not 7.
fn toml_value(value: &str) -> String {
    match value.parse::<i64>() {
        Ok(number) if number.to_string() == value => value.to_owned(),
        _ => toml::Value::String(value.to_owned()).to_string(),
    }
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is a first line");
        if !last.is_empty() && last.len() + 1 + word.len() > WIDTH {
            lines.push(word.to_owned());
            continue;
        }
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(word);
    }
    lines
}

/// The options as the table of a document.
#[cfg(test)]
pub(super) fn document() -> String {
    let defaults = Config::default();
    let mut text = String::new();
    let mut group = "";
    for option in OPTIONS {
        if option.group != group {
            group = option.group;
            text += &format!("\n### {group}\n\n");
            text += "| option | flag, variable | default | says |\n| --- | --- | --- | --- |\n";
        }
        text += &format!(
            "| `{} = {}` | `{}`, `{}` | {} | {} |\n",
            option.key,
            option.value.replace('|', "\\|"),
            option.flag(),
            option.variable(),
            default_text(option, &defaults),
            option.about
        );
    }
    text.push('\n');
    text
}
