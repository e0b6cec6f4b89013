//! Passwords as SCRAM-SHA-256 verifiers in PostgreSQL's text form:
//! `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, base64 between the signs.
//!
//! The arithmetic is that of `pgwire`; here are the text, its limits, and where salts come from.
//! Nothing here keeps a password, and no message shows one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lazybase_model::access::Verifier;
use lazybase_model::{Error, Result};
use pgwire::api::auth::sasl::scram::{ScramSecret, gen_salted_password};

use crate::parse::roles::Secret;

/// How often a new password is hashed, as PostgreSQL does.
const ITERATIONS: usize = 4096;
/// More would let one connection attempt keep a core busy.
const ITERATIONS_MAX: usize = 1_000_000;
const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
/// The longest password, in bytes.
const PASSWORD_BYTES_MAX: usize = 1024;

const PREFIX: &str = "SCRAM-SHA-256$";

/// A verifier in its parts.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) iterations: usize,
    pub(crate) salt: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Parts {
    /// The parts of a text; `None` where it is no verifier.
    pub(crate) fn read(text: &str) -> Option<Parts> {
        let (head, keys) = text.strip_prefix(PREFIX)?.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let key = |text: &str| {
            STANDARD
                .decode(text)
                .ok()
                .filter(|key| key.len() == KEY_BYTES)
        };
        let salt = STANDARD.decode(salt).ok();
        Some(Parts {
            iterations: iterations
                .parse()
                .ok()
                .filter(|count| (1..=ITERATIONS_MAX).contains(count))?,
            salt: salt.filter(|salt| (1..=1024).contains(&salt.len()))?,
            stored_key: key(stored_key)?,
            server_key: key(server_key)?,
        })
    }

    /// The verifier of a password.
    fn of(password: &str, salt: Vec<u8>, iterations: usize) -> Result<Parts> {
        let salted = gen_salted_password(password, &salt, iterations);
        let made = ScramSecret::verifier_from_salted_password(salt, salted, iterations);
        match made {
            ScramSecret::Verifier {
                salt,
                iterations,
                stored_key,
                server_key,
            } => Ok(Parts {
                iterations,
                salt,
                stored_key,
                server_key,
            }),
            ScramSecret::SaltedPassword { .. } => {
                Err(Error::internal("a verifier was asked for, and not made"))
            }
        }
    }

    fn write(&self) -> Verifier {
        let encode = |bytes: &[u8]| STANDARD.encode(bytes);
        Verifier::new(format!(
            "{PREFIX}{}:{}${}:{}",
            self.iterations,
            encode(&self.salt),
            encode(&self.stored_key),
            encode(&self.server_key)
        ))
    }

    /// What the exchange with a client is made with.
    pub(crate) fn secret(self) -> ScramSecret {
        ScramSecret::Verifier {
            salt: self.salt,
            iterations: self.iterations,
            stored_key: self.stored_key,
            server_key: self.server_key,
        }
    }

    /// Whether this is the password. It takes as long whatever is different.
    fn is_of(&self, password: &str) -> Result<bool> {
        let tried = Parts::of(password, self.salt.clone(), self.iterations)?;
        let differs = tried.stored_key.iter().zip(&self.stored_key);
        Ok(differs.fold(0_u8, |all, (a, b)| all | (a ^ b)) == 0)
    }
}

/// What is kept of a password: the verifier that it is already, or a new one.
///
/// # Errors
/// `Invalid` for texts that are no password (22023) and kinds of verifiers that are not kept
/// (0A000).
pub(crate) fn verifier(password: &Secret) -> Result<Verifier> {
    let text = password.0.as_str();
    let wrong = |what: &str| Err(Error::invalid(what).with_sqlstate("22023"));
    if let Some(parts) = Parts::read(text) {
        return Ok(parts.write());
    }
    if text.starts_with(PREFIX) {
        return wrong("the SCRAM verifier is not whole");
    }
    let is_md5 = text
        .strip_prefix("md5")
        .is_some_and(|rest| rest.len() == 32 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if is_md5 {
        return Err(Error::invalid("MD5 passwords are not kept")
            .with_hint("give the password itself, or its SCRAM-SHA-256 verifier")
            .with_sqlstate("0A000"));
    }
    match text.len() {
        0 => return wrong("the password is empty"),
        length if length > PASSWORD_BYTES_MAX => return wrong("the password is too long"),
        _ => {}
    }
    let mut salt = vec![0; SALT_BYTES];
    getrandom::fill(&mut salt)
        .map_err(|error| Error::unavailable(format!("no random numbers: {error}")))?;
    Ok(Parts::of(text, salt, ITERATIONS)?.write())
}

/// Whether a password is the one that a verifier tests.
pub(crate) fn is_password(verifier: &Parts, password: &str) -> Result<bool> {
    match password.len() {
        0 => Ok(false),
        length if length > PASSWORD_BYTES_MAX => Ok(false),
        _ => verifier.is_of(password),
    }
}

/// A verifier for a name that has none: always the same for the name, so that nobody can tell by
/// asking twice, and of no password.
pub(crate) fn nobodys(name: &str, seed: &[u8; 32]) -> Parts {
    // One step of hashing each: what comes of it is as good as random to whoever lacks the seed.
    let salt = gen_salted_password(name, seed, 1);
    let key = gen_salted_password(name, &salt, 1);
    Parts {
        iterations: ITERATIONS,
        salt: salt[..SALT_BYTES].to_vec(),
        server_key: gen_salted_password(name, &key, 1),
        stored_key: key,
    }
}

#[cfg(test)]
mod tests;
