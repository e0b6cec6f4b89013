//! A query in the words that the plain engine is asked in, where it is not trusted with those that
//! LazyBase is asked in.
//!
//! Nothing of plain tables is hidden, so that what a wildcard gives is named there: the columns of
//! whatever its table's name means to whoever asks. That may be another table than the one that the
//! query was drawn over, as where a temporary one stands before it.

use std::borrow::Cow;

use crate::rows::State;

/// What a wildcard gives all columns of.
#[derive(Debug, Clone)]
pub(super) struct Wildcard {
    pub(super) name: String,
    pub(super) alias: Option<String>,
}

/// The words: of [`super::Order::Some`], without its limit.
#[derive(Debug, Clone)]
pub(super) struct Words {
    /// Stands before the text, as the columns that it gives.
    wildcard: Option<Wildcard>,
    text: String,
}

impl Words {
    /// These words, whoever asks.
    pub(super) fn whole(text: String) -> Words {
        Words {
            wildcard: None,
            text,
        }
    }

    /// All columns that a wildcard gives, with this text behind them.
    pub(super) fn all_of(wildcard: Wildcard, text: String) -> Words {
        Words {
            wildcard: Some(wildcard),
            text,
        }
    }

    /// The words with an end.
    pub(super) fn with(mut self, end: &str) -> Words {
        self.text += end;
        self
    }

    /// What they come to where names mean what they do in a state; `None` where that of a wildcard
    /// means nothing.
    pub(super) fn over(&self, state: impl FnOnce() -> State) -> Option<Cow<'_, str>> {
        let Some(Wildcard { name, alias }) = &self.wildcard else {
            return Some(Cow::from(&self.text));
        };
        let state = state();
        let (rows, shown) = state.named(name)?;
        let columns = rows.table.names(&shown).into_iter();
        let columns = columns.map(|column| match alias {
            Some(alias) => format!("{alias}.{column}"),
            None => column.to_owned(),
        });
        let columns: Vec<String> = columns.collect();
        Some(format!("SELECT {}{}", columns.join(", "), self.text).into())
    }
}
