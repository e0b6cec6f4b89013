//! `lazybase role` on a closed folder, and the server that it opens and closes.

use crate::run::Place;

#[test]
fn roles_are_made_on_the_folder_and_their_passwords_shown_by_nothing() {
    let place = Place::new();
    place.ok(&["sql", "-c", "CREATE TABLE t (k INT PRIMARY KEY)"]);
    let create = ["role", "create", "Anna \"x\"", "--superuser"];
    let made = place.run_with(&create, "hunter2\n");
    let said = made.err;
    assert!(made.ok, "{said}");
    assert!(
        said.contains("from now on") && !said.contains("hunter2"),
        "{said}"
    );
    let again = place.run_with(&create, "hunter2\n");
    assert!(!again.ok);
    let said = again.err;
    assert!(
        said.contains("is there already") && !said.contains("hunter2"),
        "{said}"
    );
    assert!(!place.run_with(&["role", "create", "bert"], "\n").ok);
    let listed = place.ok(&["role", "list"]);
    assert!(listed.contains("Anna \"x\""), "{listed}");
    assert!(
        !listed.contains("SCRAM") && !listed.contains("bert"),
        "{listed}"
    );
    // The manifest holds the verifier, which is no password; nothing else does.
    assert!(!place.ok(&["inspect"]).contains("SCRAM"));
    let change = ["role", "password", "Anna \"x\""];
    assert!(place.run_with(&change, "other\n").ok);
    place.ok(&["role", "drop", "Anna \"x\""]);
    assert!(!place.ok(&["role", "list"]).contains("Anna"));
}

#[test]
fn others_are_not_served_without_encryption_and_roles() {
    let place = Place::new();
    let error = place.fails(&["serve", "--pg-listen", "0.0.0.0:0"]);
    assert!(
        error.contains("other machines") && error.contains("lazybase role"),
        "{error}"
    );
    let key = place.file("server.key", "no key");
    let error = place.fails(&["serve", "--tls-cert", &key, "--tls-key", &key]);
    assert!(error.contains("server.key"), "{error}");
    let error = place.fails(&["serve", "--tls-cert", &key]);
    assert!(error.contains("--tls-key"), "{error}");
}
