//! The shell in a terminal: history, completion, lines until a semicolon, errors that don't end it.

use std::borrow::Cow;
use std::io::{self, IsTerminal};

use lazybase_model::{Error, Result};
use reedline::{
    ColumnarMenu, Emacs, FileBackedHistory, KeyCode, KeyModifiers, MenuBuilder, Prompt,
    PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, Signal,
    ValidationResult, Validator, default_emacs_keybindings,
};
use tokio::runtime::Runtime;

use super::complete::Words;
use super::feed::Item;
use super::{Next, Shell, meta};
use crate::failure;
use crate::wall;

const HISTORY_LINES: usize = 10_000;
const MENU: &str = "completion";

/// Reads and runs statements until the user leaves.
pub(super) fn run(runtime: &Runtime, mut shell: Shell) -> Result<()> {
    let words = runtime.block_on(shell.words())?;
    let mut editor = editor(words)?.with_ansi_colors(shell.colour_out);
    shell.remark(concat!(
        "LazyBase ",
        env!("CARGO_PKG_VERSION"),
        ": \\? for help; a statement ends with a semicolon"
    ));
    loop {
        shell.tell_troubles();
        let prompt = Marker {
            in_transaction: shell.target.in_transaction(),
        };
        let signal = editor.read_line(&prompt);
        match signal.map_err(|error| failure::io("terminal", &error))? {
            Signal::Success(text) if run_text(runtime, &mut shell, &text) == Next::Quit => {
                return Ok(());
            }
            Signal::CtrlD => return Ok(()),
            _ => {}
        }
    }
}

fn run_text(runtime: &Runtime, shell: &mut Shell, text: &str) -> Next {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Next::Continue;
    }
    let item = match (meta::plain_word(trimmed), trimmed.starts_with('\\')) {
        (Some(command), _) => Item::Command {
            text: command.to_owned(),
            line: 1,
        },
        (None, true) => Item::Command {
            text: trimmed.to_owned(),
            line: 1,
        },
        (None, false) => Item::Sql {
            text: text.to_owned(),
            line: 1,
        },
    };
    match runtime.block_on(shell.run_item(item)) {
        Ok(next) => next,
        // On a terminal, it is a pipe that a COPY has named.
        Err(error) if failure::is_unread(&error) && !io::stdout().is_terminal() => Next::Quit,
        Err(error) => {
            failure::print(&error);
            Next::Continue
        }
    }
}

fn editor(words: Words) -> Result<Reedline> {
    let mut keys = default_emacs_keybindings();
    keys.add_binding(
        KeyModifiers::NONE,
        KeyCode::Tab,
        ReedlineEvent::UntilFound(vec![
            ReedlineEvent::Menu(MENU.to_owned()),
            ReedlineEvent::MenuNext,
        ]),
    );
    let menu = ColumnarMenu::default().with_name(MENU);
    let editor = Reedline::create()
        .with_validator(Box::new(UntilSemicolon))
        .with_completer(Box::new(words))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_quick_completions(true)
        .with_partial_completions(true);
    let Some(path) = wall::history_file() else {
        return Ok(editor);
    };
    let history = FileBackedHistory::with_file(HISTORY_LINES, path.clone()).map_err(|error| {
        Error::unavailable(format!("history {}: {error}", path.display()))
            .with_hint("set LAZYBASE_HISTORY to a file that can be written")
    })?;
    Ok(editor.with_history(Box::new(history)))
}

/// A statement goes on until its semicolon.
struct UntilSemicolon;

impl Validator for UntilSemicolon {
    fn validate(&self, line: &str) -> ValidationResult {
        let trimmed = line.trim();
        let done = trimmed.is_empty()
            || trimmed.starts_with('\\')
            || meta::plain_word(trimmed).is_some()
            || (trimmed.contains(';') && lazybase_query::is_complete(line));
        match done {
            true => ValidationResult::Complete,
            false => ValidationResult::Incomplete,
        }
    }
}

/// The prompt; a star says that a transaction is open.
struct Marker {
    in_transaction: bool,
}

impl Prompt for Marker {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("lazybase")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed(match self.in_transaction {
            true => "*> ",
            false => "> ",
        })
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("      -> ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search {}) ", search.term))
    }
}
