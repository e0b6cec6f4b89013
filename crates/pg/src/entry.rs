//! Who is let in: by name alone while no role can show who it is, by a client's certificate, or by
//! a password in a SCRAM-SHA-256 exchange, bound to the server's certificate where there is one.
//!
//! ```text
//!   no role can show it  -> trusted, on this machine alone
//!   certificate          -> the role of its common name
//!   SASL -> client first -> server first (salt, iterations) -> client final (proof)
//!        -> server final (its own proof) | 28P01, whatever was not right
//! ```
//!
//! Invariant ENT-1: nothing of what a client sends before it is let in is longer than
//! [`PASSWORD_BYTES_MAX`], and how long an answer takes does not tell what was wrong.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, Bytes};
use lazybase_model::{Error, Result};
use lazybase_query::{Attempts, Authenticated, Database, wrong_password};
use lazybase_tls::is_local;
use pgwire::api::auth::sasl::scram::ScramServerAuth;
use pgwire::messages::startup::Authentication;

use crate::input::{Gone, Wire};
use crate::messages::broken;
use crate::server::within;

/// The longest message of an exchange.
const PASSWORD_BYTES_MAX: usize = 4096;

const PLAIN: &str = "SCRAM-SHA-256";
const BOUND: &str = "SCRAM-SHA-256-PLUS";

/// How a client is let in.
pub(crate) struct Door<'d> {
    pub(crate) database: &'d Database,
    /// Roles are let in by name alone where the client is on this machine.
    pub(crate) trusts_loopback: bool,
    /// Certificates of clients are taken.
    pub(crate) takes_certificates: bool,
    pub(crate) attempts: &'d Attempts,
    pub(crate) peer: SocketAddr,
}

impl Door<'_> {
    /// Finds out who a client is.
    ///
    /// # Errors
    /// `Gone` when it leaves; inside, `Invalid` with 28000 or 28P01 for who is not let in, and
    /// `Unavailable` (53300) where too many others try passwords from the same address.
    pub(crate) async fn open(
        &self,
        wire: &mut Wire,
        user: &str,
    ) -> Result<Result<Authenticated>, Gone> {
        let is_local = is_local(&self.peer);
        if !is_local && !wire.is_encrypted() {
            return Ok(Err(Error::invalid(
                "connections from other machines are encrypted",
            )
            .with_hint("connect with sslmode=verify-full, or sslmode=require")
            .with_sqlstate("28000")));
        }
        let without_passwords = self.trusts_loopback || self.takes_certificates;
        if is_local && self.database.is_open(without_passwords) {
            return Ok(self.database.trust(user));
        }
        if self.database.is_open(true) {
            return Ok(Err(Error::invalid("nobody can log in from other machines")
                .with_detail("no role has LOGIN")
                .with_sqlstate("28000")));
        }
        if let Some(name) = wire.certified() {
            return Ok(match name == user {
                true => self.database.trust_certificate(user),
                false => Err(Error::invalid(format!(
                    "the certificate is that of {name:?}, not of {user:?}"
                ))
                .with_sqlstate("28000")),
            });
        }
        if is_local && self.trusts_loopback {
            return Ok(self.database.trust_here(user));
        }
        self.exchange(wire, user).await
    }

    /// The SCRAM exchange.
    async fn exchange(&self, wire: &mut Wire, user: &str) -> Result<Result<Authenticated>, Gone> {
        let challenge = match self.database.challenge(user) {
            Ok(challenge) => challenge,
            Err(error) => return Ok(Err(error)),
        };
        let mut server = ScramServerAuth::new();
        if let Some(certificate) = wire.certificate() {
            // A certificate that passwords can't be bound to is one without that.
            drop(server.configure_certificate(&certificate));
        }
        let binds = server.supports_channel_binding();
        let mechanisms: &[&str] = if binds { &[BOUND, PLAIN] } else { &[PLAIN] };
        let mechanisms = mechanisms.iter().map(|name| (*name).to_owned()).collect();
        wire.put(Authentication::SASL(mechanisms));
        wire.flush().await?;
        let first = match message(wire).await? {
            Ok(first) => first,
            Err(error) => return Ok(Err(error)),
        };
        let first = match initial(first, binds) {
            Ok(first) => first,
            Err(error) => return Ok(Err(error)),
        };
        let passed = challenge.passed(self.database);
        let begun = server.on_client_first_message_with_secret(&first, challenge.secret);
        let Ok((answer, waiting)) = begun else {
            return Ok(Err(malformed()));
        };
        wire.put(Authentication::SASLContinue(answer.into()));
        wire.flush().await?;
        let last = match message(wire).await? {
            Ok(last) => last,
            Err(error) => return Ok(Err(error)),
        };
        let turn = within(Attempts::PATIENCE, self.attempts.turn(self.peer.ip())).await;
        let Some(turn) = turn.flatten() else {
            return Ok(Err(Attempts::too_many()));
        };
        wait(turn.delay(self.database.instance().now_micros())).await;
        let proved = match waiting.on_client_final_message(&last) {
            // Of a password that is right, why else the role can't log in may be told.
            Ok(proof) => passed.inspect(|_| wire.put(Authentication::SASLFinal(proof.into()))),
            Err(_) => Err(wrong_password(user)),
        };
        turn.end(proved.is_ok(), self.database.instance().now_micros());
        if proved.as_ref().is_err_and(is_of_password) {
            self.database.note_refused(user, self.peer);
        }
        Ok(proved)
    }
}

/// Whether an error is that of a password that is not right, as far as the client is told.
fn is_of_password(error: &Error) -> bool {
    error.sqlstate() == "28P01"
}

fn malformed() -> Error {
    broken("the SASL message is malformed")
}

/// The next message of an exchange.
async fn message(wire: &mut Wire) -> Result<Result<Bytes>, Gone> {
    loop {
        if let Some(header) = wire.input.get(..5) {
            if header[0] != b'p' {
                return Ok(Err(broken("a password is expected")));
            }
            let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
            let length = length as usize;
            if !(4..=PASSWORD_BYTES_MAX).contains(&length) {
                return Ok(Err(broken(
                    "the message is too long or too short for a password",
                )));
            }
            if wire.input.len() > length {
                let mut message = wire.input.split_to(length + 1).freeze();
                message.advance(5);
                return Ok(Ok(message));
            }
        }
        wire.fill().await?;
    }
}

/// What a SASLInitialResponse holds: the name of the mechanism, then the client's first message.
pub(crate) fn initial(mut message: Bytes, binds: bool) -> Result<Bytes> {
    let end = message
        .iter()
        .position(|byte| *byte == 0)
        .ok_or_else(malformed)?;
    let mechanism = message.split_to(end);
    message.advance(1);
    let is_bound = mechanism == BOUND.as_bytes();
    if mechanism != PLAIN.as_bytes() && !(is_bound && binds) {
        return Err(broken("this SASL mechanism was not offered"));
    }
    let length = message.first_chunk::<4>().copied().map(i32::from_be_bytes);
    let length = length.and_then(|length| usize::try_from(length).ok());
    if length.map(|length| length + 4) != Some(message.len()) {
        return Err(malformed());
    }
    message.advance(4);
    // The mechanism and what the message says of it go together.
    match message.starts_with(b"p=") == is_bound {
        true => Ok(message),
        false => Err(malformed()),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long people on a network are waited for is no part of what is simulated"
)]
async fn wait(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

#[cfg(test)]
mod tests;
