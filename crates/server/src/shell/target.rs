//! What the shell speaks to: a database in this process, or a server.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use lazybase_model::Result;
use lazybase_query::{AnswerStream, Database, Session};

use super::copy_data::CopyData;
use crate::wire::{Reply, Told, Wire};

/// The shell's other end.
pub(super) enum Target {
    /// A database in this process.
    Here(Box<Here>),
    /// A server.
    There(Box<Wire>),
}

/// A database in this process, and the shell's session.
pub(super) struct Here {
    pub(super) database: Database,
    pub(super) session: Session,
}

/// What a statement answers, from either.
#[expect(clippy::large_enum_variant, reason = "there is one a statement")]
pub(super) enum Answered {
    /// Of a database in this process.
    Here(AnswerStream),
    /// Of a server.
    There(Reply),
}

impl Target {
    /// Runs one statement.
    pub(super) async fn query(&self, statement: &str) -> Result<Answered> {
        Ok(match self {
            Target::Here(here) => Answered::Here(here.session.query(statement).await?),
            Target::There(wire) => Answered::There(wire.query(statement).await?),
        })
    }

    /// Runs one `COPY ... FROM STDIN`.
    pub(super) async fn copy_from(&self, statement: &str, data: CopyData) -> Result<Answered> {
        Ok(match self {
            Target::Here(here) => Answered::Here(here.session.copy_from(statement, data).await?),
            Target::There(wire) => Answered::There(wire.copy_in(statement, data).await?),
        })
    }

    /// Whether a transaction is open.
    pub(super) fn in_transaction(&self) -> bool {
        match self {
            Target::Here(here) => here.session.in_transaction(),
            Target::There(wire) => wire.in_transaction(),
        }
    }

    /// Ends the statement that was given up, where that takes more than dropping it.
    pub(super) async fn cancel(&self) {
        if let Target::There(wire) = self {
            wire.cancel().await;
        }
    }
}

impl Answered {
    /// The columns.
    pub(super) fn schema(&self) -> SchemaRef {
        match self {
            Answered::Here(answer) => answer.schema(),
            Answered::There(reply) => reply.schema(),
        }
    }

    /// Whether the statement is one that returns rows, be there any or not.
    pub(super) fn returns_rows(&self) -> bool {
        match self {
            Answered::Here(answer) => answer.returns_rows(),
            Answered::There(reply) => reply.returns_rows(),
        }
    }

    /// The next rows.
    pub(super) async fn next(&mut self) -> Option<Result<RecordBatch>> {
        match self {
            Answered::Here(answer) => answer.next().await,
            Answered::There(reply) => reply.next().await,
        }
    }

    /// What is said beside the rows, once they have ended.
    pub(super) fn told(&self) -> Told {
        match self {
            Answered::There(reply) => reply.told().clone(),
            Answered::Here(answer) => Told {
                tag: answer.tag(),
                token: answer.token().map(|token| token.to_string()),
                stamp: answer.stamp().map(ToString::to_string),
                notices: answer.notices().iter().map(ToString::to_string).collect(),
            },
        }
    }
}
