//! Verifiers as PostgreSQL writes them, and what is none.

use super::{Parts, Secret, is_password, nobodys, verifier};

/// Of the password "pencil", with the salt of RFC 7677.
const PENCIL: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
                      WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                      wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

fn made(text: &str) -> String {
    let made = verifier(&Secret(text.to_owned())).unwrap();
    made.as_text().to_owned()
}

#[test]
fn a_verifier_is_kept_as_it_is_and_tests_its_password() {
    assert_eq!(made(PENCIL), PENCIL);
    let parts = Parts::read(PENCIL).unwrap();
    assert!(is_password(&parts, "pencil").unwrap());
    for wrong in ["", "Pencil", "pencil ", PENCIL, &"p".repeat(2000)] {
        assert!(!is_password(&parts, wrong).unwrap());
    }
}

#[test]
fn a_password_is_never_kept() {
    let (one, other) = (made("péncil"), made("péncil"));
    assert!(one != other, "each has a salt of its own");
    assert!(!one.contains("péncil"));
    let parts = Parts::read(&one).unwrap();
    assert!(is_password(&parts, "péncil").unwrap());
}

#[test]
fn what_is_no_password_is_refused_without_being_shown() {
    for (text, sqlstate) in [
        ("", "22023"),
        ("SCRAM-SHA-256$secret", "22023"),
        (
            "SCRAM-SHA-256$0:W22ZaJ0SNY7soEsUEjb6gQ==$secret:secret",
            "22023",
        ),
        ("md50123456789abcdef0123456789abcdef", "0A000"),
        (&"secret".repeat(1000), "22023"),
    ] {
        let error = verifier(&Secret(text.to_owned())).unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate);
        assert!(!format!("{error:?}").contains("secret"));
    }
    for text in [
        PENCIL.replace("4096", "99999999"),
        PENCIL.replace("4096", "-1"),
        PENCIL.replace("W22Z", "W22"),
        PENCIL[..PENCIL.len() - 4].to_owned(),
        PENCIL.replace(':', ""),
    ] {
        assert!(Parts::read(&text).is_none(), "{text}");
    }
}

#[test]
fn names_without_a_verifier_seem_to_have_one() {
    let seed = [7; 32];
    let shown = |name: &str| nobodys(name, &seed).write().as_text().to_owned();
    assert_eq!(shown("anna"), shown("anna"));
    assert!(shown("anna") != shown("bert"));
    assert!(Parts::read(&shown("anna")).is_some());
    assert!(!is_password(&nobodys("anna", &seed), "anna").unwrap());
}
