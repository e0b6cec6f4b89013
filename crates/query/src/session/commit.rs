//! How what a session wrote becomes durable: a transaction's buffer, or one statement's batch.

use lazybase_cluster::{BatchWriter, Unchanged};
use lazybase_engine::manifest::Ddl;
use lazybase_model::{Result, Token};
use tracing::Instrument;

use super::Shared;
use crate::answer::AnswerStream;
use crate::observe;
use crate::producer::no_ddl;
use crate::show::{nothing_to_end, own};

impl Shared {
    /// Writes the transaction's changes as one batch. With `chain`, one that is like it begins
    /// where it ends; none where it could not be written.
    pub(crate) async fn commit(&self, chain: bool) -> Result<AnswerStream> {
        let (transaction, number, acts_as) = {
            let mut state = self.state.lock();
            if chain {
                own(&mut state, "COMMIT AND CHAIN")?;
            }
            let (number, acts_as) = (state.batch_number(), state.identity);
            (state.take(), number, acts_as)
        };
        let Some(transaction) = transaction else {
            return Ok(AnswerStream::done("COMMIT", 0).with_notices([nothing_to_end()]));
        };
        let read_only = transaction.read_only;
        if transaction.failed {
            if chain {
                self.state.lock().begin(read_only, false);
            }
            return Ok(AnswerStream::done("ROLLBACK", 0));
        }
        let (buffer, lasting) = (transaction.buffer, transaction.lasting);
        let token = match buffer.is_empty() {
            true if number.is_none() || !transaction.wrote => None,
            _ if number.is_some() && !buffer.tables.is_empty() => return Err(no_ddl()),
            _ => {
                let ddl = buffer.tables.ddl();
                let mut writer = self.instance().begin(number);
                buffer.write(&mut writer).await?;
                self.write(ddl, Some(writer), None).await?
            }
        };
        let mut state = self.state.lock();
        state.settings = lasting;
        state.identity = acts_as;
        // Statements that only read leave the number to the write that it is meant for.
        if transaction.wrote || !transaction.implicit {
            state.settings.batch_number = None;
        }
        if chain {
            state.begin(read_only, false);
        }
        Ok(AnswerStream::done("COMMIT", 0).with_token(token))
    }

    /// Commits what happens to tables and a batch, as one, if what they were made of is as it was
    /// read; the session reads at or after it.
    pub(crate) async fn write(
        &self,
        ddl: Vec<Ddl>,
        batch: Option<BatchWriter>,
        unchanged: Option<Unchanged>,
    ) -> Result<Option<Token>> {
        let span = tracing::info_span!("commit", scu = tracing::field::Empty);
        let clock = &self.instance().env().clock;
        let started = clock.monotonic();
        let acknowledged = match (ddl.is_empty(), batch) {
            (true, None) => None,
            (true, Some(batch)) => {
                let commit = Box::pin(batch.commit());
                Some(commit.instrument(span.clone()).await?)
            }
            (false, batch) => {
                let instance = self.instance();
                let commit = Box::pin(instance.commit_unless_changed(ddl, batch, unchanged));
                let acknowledged = commit.instrument(span.clone()).await?;
                self.note_ddl();
                acknowledged
            }
        };
        if let Some(acknowledged) = &acknowledged {
            span.record("scu", acknowledged.token.horizon.scu.0);
            let took = clock.monotonic().saturating_sub(started);
            observe::committed(took, acknowledged.rows);
        }
        self.number_used();
        let token = acknowledged.map(|acknowledged| acknowledged.token);
        token.into_iter().for_each(|token| self.note_token(token));
        Ok(token)
    }
}
