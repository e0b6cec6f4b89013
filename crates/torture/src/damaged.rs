//! What becomes of a database with one damaged file: whether it opens, what it answers, whether
//! `verify` names the file, and whether it is whole afterwards.
//!
//! ```text
//!   stop | write, kill -> copy aside -> damage
//!   -> start, ask, kill -> verify -> start, ask, kill -> verify
//!                            |                             |
//!                      names the file              nothing is left
//!                      where it is missed          where it said so
//! ```

use std::path::Path;

use tokio_postgres::Client;

use crate::Outcome;
use crate::clients::code_of;
use crate::damage::{Damage, Ended, damage};
use crate::history::Final;
use crate::readers::look_once;
use crate::rounds::Torture;
use crate::server::{Refused, command, copy_folder, start, timely};
use crate::whole::last;

/// What a damaged file led to.
enum Found {
    /// The database does not open, and names the file.
    Refused,
    /// Some query failed, and said why; what was answered was right.
    QueryFailed,
    /// Every answer was right.
    Right,
    Wrong(String),
}

/// What `verify` said.
struct Verified {
    whole: bool,
    said: String,
}

impl Verified {
    fn is_silent(&self) -> bool {
        !["healed:", "can be healed", "problem:"]
            .iter()
            .any(|word| self.said.contains(word))
    }
}

impl Torture<'_> {
    /// Damages one file, and looks what comes of it; then puts everything back. Every other time
    /// the database was killed before, in the middle of an SCU.
    pub(crate) async fn corrupt(&mut self) -> Outcome<()> {
        let ended = match self.report.corruptions % 2 {
            0 => Ended::Stopped,
            _ => Ended::Killed,
        };
        let there = self.leave(ended).await?;
        copy_folder(&self.folder, &self.kept)?;
        let done = damage(&self.folder, ended, &mut self.dice)?;
        let told = |what: String| format!("after damage ({done}, {ended:?}): {what}");
        match self.look_at_damage(&done, &there).await {
            Ok(None) => {}
            Ok(Some(what)) => self.shared.violated(told(what)),
            Err(error) => self.shared.violated(told(error.to_string())),
        }
        self.report.corruptions += 1;
        self.report.corruptions_after_kills += u32::from(ended == Ended::Killed);
        if self.shared.violations.lock().is_empty() {
            std::fs::remove_dir_all(&self.folder)?;
            copy_folder(&self.kept, &self.folder)?;
            std::fs::remove_dir_all(&self.kept)?;
            if let Some(disk) = &self.disk {
                disk.sync()?;
            }
        }
        Ok(())
    }

    /// A life that ends so; what it leaves.
    async fn leave(&mut self, ended: Ended) -> Outcome<Final> {
        let server = self.start().await?;
        if ended == Ended::Killed {
            self.write_some(&server).await?;
        }
        let client = timely("a connection", server.connect()).await?;
        let (there, wrong) = timely("all rows", last(&client)).await?;
        wrong
            .into_iter()
            .for_each(|what| self.shared.violated(what));
        drop(client);
        match ended {
            Ended::Stopped => server.stop().await?,
            Ended::Killed => server.kill()?,
        }
        Ok(there)
    }

    /// What is wrong with a database that has this damage.
    async fn look_at_damage(&mut self, done: &Damage, there: &Final) -> Outcome<Option<String>> {
        let found = self.open_damaged(done, there).await?;
        let verified = self.verify()?;
        let names = verified.said.contains(&done.name);
        if !verified.whole && !names {
            let said = verified.said;
            return Ok(Some(format!(
                "`verify` fails without the file's name: {said}"
            )));
        }
        match found {
            Found::Wrong(what) => return Ok(Some(what)),
            Found::Refused if verified.whole => {
                return Ok(Some("`verify` opens what did not open before".to_owned()));
            }
            Found::Refused => self.report.corruptions_refused += 1,
            Found::QueryFailed => {
                self.report.corruptions_query_failed += 1;
                if !names {
                    let said = verified.said;
                    let what = format!("a query failed, and `verify` does not name it: {said}");
                    return Ok(Some(what));
                }
            }
            Found::Right => self.report.corruptions_right += 1,
        }
        if let (Found::Refused, false) = (&found, verified.whole) {
            return self.without_damaged(done, there).await;
        }
        if !verified.whole {
            return Ok(None);
        }
        // It says that everything is whole: then it is, now and when it is looked at again.
        self.report.corruptions_healed += u32::from(!verified.is_silent());
        match self.open_damaged(done, there).await? {
            Found::Right => {}
            Found::Wrong(what) => return Ok(Some(format!("once it was healed: {what}"))),
            Found::Refused | Found::QueryFailed => {
                let said = verified.said;
                return Ok(Some(format!("`verify` says that it is whole: {said}")));
            }
        }
        let again = self.verify()?;
        Ok((!again.whole || !again.is_silent())
            .then(|| format!("`verify` finds more the second time: {}", again.said)))
    }

    /// What is wrong with a refusal: without the damaged file everything is there, and others could
    /// have told so.
    async fn without_damaged(&mut self, done: &Damage, there: &Final) -> Outcome<Option<String>> {
        if done.is_alone(&self.folder)? || !done.remove(&self.folder)? {
            return Ok(None);
        }
        let found = self.open_damaged(done, there).await?;
        let needless = matches!(found, Found::Right);
        Ok(needless.then(|| "it does not open for a file that nothing needs".to_owned()))
    }

    async fn open_damaged(&mut self, done: &Damage, there: &Final) -> Outcome<Found> {
        let server = match start(&self.args.binary, &self.folder, &self.log)? {
            Ok(server) => server,
            Err(Refused(said)) => {
                return Ok(match said.contains(&done.name) {
                    true => Found::Refused,
                    false => Found::Wrong(format!("it refuses without the file's name: {said}")),
                });
            }
        };
        let client = timely("a connection", server.connect()).await?;
        let asked = async { Outcome::Ok(self.ask_after_damage(&client, there).await) };
        let found = timely("questions after damage", asked).await?;
        server.kill()?;
        Ok(found)
    }

    async fn ask_after_damage(&self, client: &Client, there: &Final) -> Found {
        let mut failed = false;
        for bound in [None, Some(0), Some(1_000_000)] {
            match look_once(client, &self.shared, bound).await {
                Ok(true) => {}
                Ok(false) => return Found::Wrong("an answer is torn".to_owned()),
                Err(error) => match code_of(&error) {
                    Some("XX001") => failed = true,
                    code => return Found::Wrong(format!("a query failed: {code:?}: {error:?}")),
                },
            }
        }
        match last(client).await {
            Ok((found, wrong)) if found == *there && wrong.is_empty() => {}
            Ok((_, wrong)) => {
                return Found::Wrong(format!("other rows are there than before: {wrong:?}"));
            }
            Err(error) => match code_of(&error) {
                Some("XX001") => failed = true,
                code => return Found::Wrong(format!("a query failed: {code:?}: {error:?}")),
            },
        }
        match failed {
            true => Found::QueryFailed,
            false => Found::Right,
        }
    }

    fn verify(&self) -> Outcome<Verified> {
        verified(&self.args.binary, &self.folder)
    }

    /// What `verify` finds in a database that nobody damaged.
    pub(crate) fn check_files(&self) -> Outcome<()> {
        let verified = self.verify()?;
        if !verified.whole || !verified.is_silent() {
            self.shared
                .violated(format!("`lazybase verify` finds: {}", verified.said));
        }
        Ok(())
    }

    /// A disk that can only be read refuses the start in words, and harms nothing.
    pub(crate) async fn read_only(&mut self) -> Outcome<()> {
        let Some(disk) = &self.disk else {
            return Ok(());
        };
        disk.set_writable(false)?;
        let started = start(&self.args.binary, &self.folder, &self.log);
        let refused = match started {
            Ok(Ok(server)) => server.kill().map(|()| None),
            Ok(Err(Refused(said))) => Ok(Some(said)),
            Err(error) => Err(error),
        };
        disk.set_writable(true)?;
        match refused? {
            Some(said) if said.to_lowercase().contains("read-only") => self.report.read_only += 1,
            Some(said) => {
                let what = format!("a read-only disk is refused without its name: {said}");
                self.shared.violated(what);
            }
            None => self
                .shared
                .violated("it starts on a read-only disk".to_owned()),
        }
        Ok(())
    }
}

fn verified(binary: &Path, folder: &Path) -> Outcome<Verified> {
    let checked = command(binary, folder).arg("verify").output()?;
    let mut said = String::from_utf8_lossy(&checked.stdout).into_owned();
    said += &String::from_utf8_lossy(&checked.stderr);
    if said.contains("panicked at") || checked.status.code().is_none() {
        return Err(format!("`verify` ended with {}: {said}", checked.status).into());
    }
    Ok(Verified {
        whole: checked.status.success(),
        said,
    })
}
