//! GRANT and REVOKE, of privileges and of memberships.

use datafusion::sql::sqlparser::tokenizer::Token;
use lazybase_model::access::Privilege;
use lazybase_model::{Error, Result};

use super::{AccessStatement, Cursor, GrantOption, Listed, RoleName, Targets};
use crate::parse::{SCHEMA, unsupported};

/// Privileges as they are written, each with the columns behind it.
type Named = Vec<(String, Vec<String>)>;

impl Cursor<'_> {
    pub(super) fn grant(&mut self, gives: bool) -> Result<AccessStatement> {
        let only_admin = !gives && self.take(&["ADMIN", "OPTION", "FOR"]);
        let only_option = !gives && self.take(&["GRANT", "OPTION", "FOR"]);
        let start = self.at;
        let mut depth = 0;
        let on_something = self.tokens[self.at..].iter().any(|token| {
            match &token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            depth == 0
                && matches!(&token.token, Token::Word(word)
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("ON"))
        });
        self.at = start;
        let to = if gives { "TO" } else { "FROM" };
        if on_something && !only_admin {
            let privileges = self.list(Self::privilege)?;
            self.expect("ON")?;
            let (on, privileges) = self.targets(privileges)?;
            self.expect(to)?;
            let roles = self.list(Self::role)?;
            let (with_option, cascade) = self.grant_ends(gives)?;
            return Ok(AccessStatement::Grant {
                gives,
                privileges: privileges_of(&on, privileges)?,
                on,
                roles,
                option: match (with_option, only_option) {
                    (true, _) => GrantOption::With,
                    (_, true) => GrantOption::Only,
                    _ => GrantOption::Plain,
                },
                cascade,
            });
        }
        if only_option {
            return Err(self.unexpected("ON"));
        }
        let roles = self.list(Self::name)?;
        self.expect(to)?;
        let members = self.list(Self::role)?;
        match gives {
            true => {
                let admin = self.membership_options()?;
                Ok(AccessStatement::GrantRoles {
                    roles,
                    members,
                    admin,
                })
            }
            false => {
                let _ = self.grant_ends(gives)?;
                Ok(AccessStatement::RevokeRoles {
                    roles,
                    members,
                    only_admin,
                })
            }
        }
    }

    /// A privilege, and the columns that it is for.
    fn privilege(&mut self) -> Result<(String, Vec<String>)> {
        let word = self.word().ok_or_else(|| self.unexpected("a privilege"))?;
        self.at += 1;
        if word == "ALL" {
            self.take(&["PRIVILEGES"]);
        }
        let mut columns = Vec::new();
        if self.take_token(&Token::LParen) {
            columns = self.list(Self::name)?;
            if !self.take_token(&Token::RParen) {
                return Err(self.unexpected(")"));
            }
        }
        Ok((word, columns))
    }

    fn targets(&mut self, mut privileges: Named) -> Result<(Targets, Named)> {
        if self.take(&["DATABASE"]) {
            self.database()?;
            return Ok((Targets::Database, privileges));
        }
        if self.take(&["SCHEMA"]) {
            let name = self.name()?;
            if name != SCHEMA {
                return Err(Error::not_found(format!("there is no schema {name:?}"))
                    .with_hint("tables live in the schema public")
                    .with_sqlstate("3F000"));
            }
            privileges.retain(|(word, _)| word != "USAGE");
            return Ok(match privileges.is_empty() {
                true => (Targets::Usage, privileges),
                // What may be made in the one schema is what may be made in the database.
                false => {
                    for (word, _) in &mut privileges {
                        if word == "ALL" {
                            "CREATE".clone_into(word);
                        }
                    }
                    (Targets::Database, privileges)
                }
            });
        }
        if self.take(&["ALL", "TABLES", "IN", "SCHEMA"]) {
            self.schema_of("tables")?;
            return Ok((Targets::AllTables, privileges));
        }
        if self.take(&["ALL", "SEQUENCES", "IN", "SCHEMA"]) {
            self.schema_of("sequences")?;
            return Ok((Targets::AllSequences, privileges));
        }
        for (word, kind) in [
            ("FUNCTIONS", "functions"),
            ("PROCEDURES", "procedures"),
            ("ROUTINES", "routines"),
        ] {
            if self.take(&["ALL", word, "IN", "SCHEMA"]) {
                self.name()?;
                return Ok((Targets::Without(kind), Named::new()));
            }
        }
        let others = ["ALL", "FUNCTION", "LANGUAGE", "TYPE", "DOMAIN", "FOREIGN"];
        let word = self.word().unwrap_or_default();
        let next = self.tokens.get(self.at + 1).map(|token| &token.token);
        let names_kind = matches!(next, Some(Token::Word(_)));
        if word == "SEQUENCE" && names_kind {
            self.at += 1;
            return Ok((Targets::Sequences(self.list(Self::table)?), privileges));
        }
        if others.contains(&word.as_str()) && names_kind {
            let what = format!("privileges on {word} ... are not supported");
            let hint = "they are of the database, of tables, views, columns and sequences";
            return Err(unsupported(what).with_hint(hint));
        }
        self.take(&["TABLE"]);
        Ok((Targets::Tables(self.list(Self::table)?), privileges))
    }

    /// The schema behind `IN SCHEMA`, in which everything lives.
    fn schema_of(&mut self, what: &str) -> Result<()> {
        let name = self.name()?;
        match name == SCHEMA {
            true => Ok(()),
            false => Err(
                unsupported(format!("{what} of {name:?} have no privileges"))
                    .with_hint(format!("{what} live in the schema public")),
            ),
        }
    }

    /// What may stand behind the roles: whether they may pass on what they are granted, and whether
    /// what they have passed on is taken too.
    fn grant_ends(&mut self, gives: bool) -> Result<(bool, bool)> {
        let with_option = gives && self.take(&["WITH", "GRANT", "OPTION"]);
        // What one role alone has granted could not be told from what others have.
        if !matches!(
            self.granted_by()?,
            None | Some(RoleName::Current | RoleName::Session)
        ) {
            return Err(unsupported("the grantor must be the current role")
                .with_detail("nobody remembers who granted what")
                .with_hint("leave GRANTED BY out"));
        }
        let cascade = !gives && self.take(&["CASCADE"]);
        if !gives && !cascade {
            self.take(&["RESTRICT"]);
        }
        Ok((with_option, cascade))
    }

    /// What stands behind ALTER DEFAULT PRIVILEGES.
    pub(super) fn defaults(&mut self) -> Result<AccessStatement> {
        let mut makers = Vec::new();
        loop {
            if self.take(&["FOR", "ROLE"]) || self.take(&["FOR", "USER"]) {
                makers = self.list(Self::role)?;
            } else if self.take(&["IN", "SCHEMA"]) {
                let schemas = self.list(Self::name)?;
                if schemas != [SCHEMA] {
                    return Err(unsupported("tables are made in the schema public alone"));
                }
            } else {
                break;
            }
        }
        let gives = self.take(&["GRANT"]);
        if !gives {
            self.expect("REVOKE")?;
        }
        if !gives && self.take(&["GRANT", "OPTION", "FOR"]) {
            return Err(no_default_option());
        }
        let privileges = self.list(Self::privilege)?;
        self.expect("ON")?;
        if !self.take(&["TABLES"]) {
            let error = unsupported("what is granted by default is granted on TABLES");
            return Err(match self.take(&["SEQUENCES"]) {
                true => error.with_hint(
                    "GRANT ... ON ALL SEQUENCES IN SCHEMA public once they are there; columns \
                     GENERATED AS IDENTITY need none",
                ),
                false => error,
            });
        }
        self.expect(if gives { "TO" } else { "FROM" })?;
        let roles = self.list(Self::role)?;
        if self.grant_ends(gives)?.0 {
            return Err(no_default_option());
        }
        if privileges.iter().any(|(_, columns)| !columns.is_empty()) {
            return Err(Error::invalid("tables to come have no columns yet").with_sqlstate("0LP01"));
        }
        Ok(AccessStatement::Defaults {
            gives,
            makers,
            privileges: privileges_of(&Targets::AllTables, privileges)?,
            roles,
        })
    }

    fn granted_by(&mut self) -> Result<Option<RoleName>> {
        match self.take(&["GRANTED", "BY"]) {
            true => self.role().map(Some),
            false => Ok(None),
        }
    }

    /// `WITH ADMIN OPTION`, or as later versions of PostgreSQL write it.
    fn membership_options(&mut self) -> Result<bool> {
        let mut admin = false;
        if self.take(&["WITH"]) {
            loop {
                let option = self.name()?;
                let is = self.take(&["OPTION"]) || self.take(&["TRUE"]);
                if !is {
                    self.expect("FALSE")?;
                }
                match (option.as_str(), is) {
                    ("admin", is) => admin = is,
                    ("inherit" | "set", true) => {}
                    (other, _) => {
                        return Err(unsupported(format!(
                            "WITH {} {is} is not supported",
                            other.to_uppercase()
                        ))
                        .with_hint("ALTER ROLE ... NOINHERIT holds for all its memberships"));
                    }
                }
                if !self.take_token(&Token::Comma) {
                    break;
                }
            }
        }
        self.granted_by()?;
        Ok(admin)
    }
}

fn no_default_option() -> Error {
    unsupported("grant options are not given by default")
        .with_hint("GRANT ... WITH GRANT OPTION when the table is there")
}

/// The privileges of these words, for what they are given on.
fn privileges_of(on: &Targets, words: Named) -> Result<Listed> {
    let listed = |(word, columns): (String, Vec<String>)| {
        let privilege = match word.as_str() {
            "ALL" => None,
            word => Some(privilege_of(on, word)?),
        };
        let of_columns =
            privilege.is_none_or(|privilege| Privilege::OF_COLUMNS.contains(&privilege));
        let has_columns = matches!(on, Targets::Tables(_) | Targets::AllTables);
        match columns.is_empty() || (of_columns && has_columns) {
            true => Ok((privilege, columns)),
            false => Err(Error::invalid(format!("{word} is of no columns")).with_sqlstate("0LP01")),
        }
    };
    words.into_iter().map(listed).collect()
}

/// The privilege of a word, for what it is given on.
fn privilege_of(on: &Targets, word: &str) -> Result<Privilege> {
    let one_of = |known: &[Privilege]| Privilege::named(word).filter(|found| known.contains(found));
    let (found, hint) = match on {
        Targets::Database => (
            one_of(&Privilege::OF_DATABASE),
            "CREATE and CONNECT are of the database",
        ),
        Targets::Sequences(_) | Targets::AllSequences => (
            Privilege::named_on_sequence(word),
            "USAGE, SELECT, UPDATE and ALL are",
        ),
        _ => (
            one_of(&Privilege::OF_TABLES),
            "SELECT, INSERT, UPDATE, DELETE, TRUNCATE and ALL are",
        ),
    };
    found.ok_or_else(|| unsupported(format!("there is no privilege {word} there")).with_hint(hint))
}
