//! What the disk or the end of the server may refuse, and by which name. All else that is refused
//! is a finding.

/// What keeps the server from doing its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Trouble {
    #[default]
    None,
    /// The disk is full.
    Full,
    /// The disk can only be read.
    ReadOnly,
}

/// What is asked of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// What writes nothing: no trouble with the disk may keep it from being done.
    Read,
    Write,
}

impl Trouble {
    /// The SQLSTATEs that the users' guide names for it (`docs/user/loading.md`): nothing was
    /// written, or nobody can tell.
    fn named(self) -> &'static [&'static str] {
        match self {
            Trouble::None => &[],
            Trouble::Full => &["53100", "40003"],
            Trouble::ReadOnly => &["53000", "40003"],
        }
    }

    /// Whether an error is no finding; who is told to end ends what runs (57P01).
    pub(crate) fn excuses(self, asked: Asked, code: &str, is_ending: bool) -> bool {
        match code {
            "57P01" => is_ending,
            _ => asked == Asked::Write && self.named().contains(&code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Trouble};

    #[test]
    fn only_what_is_promised_for_a_trouble_is_excused() {
        let excused = |trouble: Trouble, asked| {
            let codes = [
                "53100", "53000", "40003", "58030", "40001", "XX000", "42703",
            ];
            let excused = codes
                .into_iter()
                .filter(|code| trouble.excuses(asked, code, true));
            excused.collect::<Vec<_>>()
        };
        assert!(excused(Trouble::None, Asked::Write).is_empty());
        assert_eq!(excused(Trouble::Full, Asked::Write), ["53100", "40003"]);
        assert_eq!(excused(Trouble::ReadOnly, Asked::Write), ["53000", "40003"]);
        for trouble in [Trouble::None, Trouble::Full, Trouble::ReadOnly] {
            assert!(excused(trouble, Asked::Read).is_empty(), "{trouble:?}");
        }
    }

    #[test]
    fn a_server_that_ends_says_so_and_no_other_does() {
        for asked in [Asked::Read, Asked::Write] {
            assert!(Trouble::None.excuses(asked, "57P01", true));
            assert!(!Trouble::Full.excuses(asked, "57P01", false));
        }
    }
}
