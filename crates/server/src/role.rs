//! `lazybase role`: roles of a closed database, by whoever owns its folder: the first superuser,
//! or a password that was forgotten.
//!
//! A password is a line of standard input, never an argument: arguments are seen by other users of
//! the machine, and kept by shells.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use lazybase_model::{Error, Result};
use lazybase_query::{Database, Session};

use crate::cli::Format;
use crate::open::{self, Missing};
use crate::render::{ResultWriter, TableStyle};

#[derive(Debug, Args)]
pub(crate) struct RoleArgs {
    #[command(subcommand)]
    pub(crate) what: RoleCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RoleCommand {
    /// Make a role that may log in; its password is read from standard input.
    Create {
        /// Its name.
        name: String,
        /// It may do everything.
        #[arg(long)]
        superuser: bool,
        /// It has no password: only a certificate lets it in.
        #[arg(long)]
        no_password: bool,
    },
    /// Give a role another password, read from standard input.
    Password {
        /// Its name.
        name: String,
    },
    /// End a role that owns nothing.
    Drop {
        /// Its name.
        name: String,
    },
    /// All roles.
    List,
}

/// Runs `role`.
pub(crate) async fn run(db: Option<PathBuf>, args: RoleArgs) -> Result<()> {
    let database = open::database(db, Missing::Refuse).await?;
    let done = change(&database, args.what).await;
    open::close(&database, done).await
}

async fn change(database: &Database, what: RoleCommand) -> Result<()> {
    let session = database.session();
    match what {
        RoleCommand::Create {
            name,
            superuser,
            no_password,
        } => {
            let may = if superuser {
                "SUPERUSER"
            } else {
                "NOSUPERUSER"
            };
            let password = match no_password {
                true => "NULL".to_owned(),
                false => text(&password()?),
            };
            let name = identifier(&name);
            let sql = format!("CREATE ROLE {name} LOGIN {may} PASSWORD {password}");
            say(&session, &sql).await
        }
        RoleCommand::Password { name } => {
            let password = text(&password()?);
            let sql = format!("ALTER ROLE {} PASSWORD {password}", identifier(&name));
            say(&session, &sql).await
        }
        RoleCommand::Drop { name } => {
            say(&session, &format!("DROP ROLE {}", identifier(&name))).await
        }
        RoleCommand::List => list(&session).await,
    }
}

/// Runs a statement, and says what was done; the statement itself is shown to nobody.
async fn say(session: &Session, sql: &str) -> Result<()> {
    for answer in session.execute(sql).await? {
        for notice in &answer.notices {
            write(io::stderr(), &format!("{notice}\n"))?;
        }
        write(io::stderr(), &format!("{}\n", answer.tag))?;
    }
    Ok(())
}

async fn list(session: &Session) -> Result<()> {
    let sql = "SELECT name, superuser, login, has_password, member_of FROM lazybase.roles";
    for answer in session.execute(&format!("{sql} ORDER BY name")).await? {
        let style = TableStyle::default();
        let schema = Arc::clone(&answer.schema);
        let mut rows = ResultWriter::new(Format::Table, schema, style, io::stdout().lock());
        for batch in &answer.batches {
            rows.write(batch)?;
        }
        rows.finish()?;
    }
    Ok(())
}

/// A line of standard input.
fn password() -> Result<String> {
    let failed = |error| Error::unavailable(format!("the password can't be read: {error}"));
    if io::stdin().is_terminal() {
        write(io::stderr(), "password (it is shown as you type): ")?;
    }
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(failed)?;
    let password = line.trim_end_matches(['\n', '\r']);
    match password.is_empty() {
        false => Ok(password.to_owned()),
        true => Err(Error::invalid("no password was given")
            .with_hint("write it to standard input, as a line")
            .with_sqlstate("22023")),
    }
}

fn write(mut to: impl Write, text: &str) -> Result<()> {
    let failed = |error| Error::unavailable(format!("nothing can be written: {error}"));
    to.write_all(text.as_bytes()).map_err(failed)
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}
