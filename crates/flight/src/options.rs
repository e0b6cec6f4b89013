//! A session's options as Flight's messages have them: our settings.

use std::collections::HashMap;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use futures::StreamExt;
use lazybase_model::{Error, ErrorKind, Result};
use lazybase_query::{Session, own_settings};

use crate::catalog::{CATALOG, SCHEMA};

/// A session that was closed.
pub(crate) const CLOSED: i32 = 1;
/// A session that there is none of.
pub(crate) const NOT_CLOSEABLE: i32 = 3;

/// The name of an option is unknown.
const INVALID_NAME: i32 = 1;
/// The value of an option is none.
const INVALID_VALUE: i32 = 2;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StringList {
    #[prost(string, repeated, tag = "1")]
    values: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OptionValue {
    #[prost(oneof = "Given", tags = "1, 2, 3, 4, 5")]
    given: Option<Given>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Given {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Switch(bool),
    #[prost(sfixed64, tag = "3")]
    Whole(i64),
    #[prost(double, tag = "4")]
    Number(f64),
    #[prost(message, tag = "5")]
    Texts(StringList),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SetSessionOptionsRequest {
    #[prost(map = "string, message", tag = "1")]
    options: HashMap<String, OptionValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OptionError {
    #[prost(int32, tag = "1")]
    value: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SetSessionOptionsResult {
    #[prost(map = "string, message", tag = "1")]
    errors: HashMap<String, OptionError>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct GetSessionOptionsResult {
    #[prost(map = "string, message", tag = "1")]
    options: HashMap<String, OptionValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CloseSessionResult {
    #[prost(int32, tag = "1")]
    pub(crate) status: i32,
}

/// Sets options; those that can't be set are named in the result.
pub(crate) async fn set(
    session: &Session,
    request: &SetSessionOptionsRequest,
) -> SetSessionOptionsResult {
    let mut errors = HashMap::new();
    for (name, value) in &request.options {
        if let Err(error) = set_one(session, name, value.given.as_ref()).await {
            let value = match error.kind() {
                ErrorKind::NotFound => INVALID_NAME,
                _ => INVALID_VALUE,
            };
            errors.insert(name.clone(), OptionError { value });
        }
    }
    SetSessionOptionsResult { errors }
}

async fn set_one(session: &Session, name: &str, value: Option<&Given>) -> Result<()> {
    let text = match value {
        None => return reset(session, name).await,
        Some(Given::Text(text)) => text.clone(),
        Some(Given::Switch(on)) => on.to_string(),
        Some(Given::Whole(number)) => number.to_string(),
        Some(Given::Number(number)) => number.to_string(),
        Some(Given::Texts(_)) => {
            return Err(Error::invalid("no option is a list").with_sqlstate("22023"));
        }
    };
    match name {
        "catalog" => fixed(&text, CATALOG),
        "schema" => fixed(&text, SCHEMA),
        name => session.set(name, &text),
    }
}

/// There is one catalog, and one schema of tables.
fn fixed(given: &str, known: &str) -> Result<()> {
    match given == known {
        true => Ok(()),
        false => Err(Error::invalid(format!("there is {known} alone")).with_sqlstate("22023")),
    }
}

async fn reset(session: &Session, name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    // Also refuses what is no setting, and no name.
    session.setting(name)?;
    match name.chars().all(plain) {
        true => session.query(&format!("RESET {name}")).await.map(drop),
        false => Err(Error::not_found(format!("there is no setting {name:?}"))),
    }
}

/// All of a session's options.
pub(crate) async fn get(session: &Session) -> Result<GetSessionOptionsResult> {
    let mut options = HashMap::new();
    let text = |text: &str| OptionValue {
        given: Some(Given::Text(text.to_owned())),
    };
    let mut shown = session.query("SHOW ALL").await?;
    while let Some(rows) = shown.next().await {
        let rows = rows?;
        let column = |at: usize| {
            let column = cast(rows.column(at), &DataType::Utf8);
            column.map_err(|error| Error::internal(error.to_string()))
        };
        let (names, values) = (column(0)?, column(1)?);
        let (names, values) = (names.as_string::<i32>(), values.as_string::<i32>());
        for (name, value) in names.iter().zip(values) {
            // What is PostgreSQL's is the same for every session.
            let own = |name: &str| own_settings().find(|own| own.eq_ignore_ascii_case(name));
            if let Some(own) = name.and_then(own) {
                options.insert(own.to_owned(), text(value.unwrap_or_default()));
            }
        }
    }
    options.insert("catalog".to_owned(), text(CATALOG));
    options.insert("schema".to_owned(), text(SCHEMA));
    Ok(GetSessionOptionsResult { options })
}
