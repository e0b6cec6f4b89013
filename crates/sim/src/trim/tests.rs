//! What is left out is read as it was written.

use lazybase_engine::env::planted::Planted;

use crate::schema::{Allowed, Shape};
use crate::story::Trim;

#[test]
fn what_is_left_out_is_read_as_it_was_written() {
    let trim = Trim {
        shape: Some(Shape::Plain),
        schema: Allowed {
            tables: 1,
            views: false,
            ..Trim::NOTHING.schema
        },
        faults: false,
        lives: 1,
        operations: 25,
        ..Trim::NOTHING
    };
    let text = "shape=plain,tables=1,views=false,faults=false,lives=1,operations=25";
    assert_eq!(trim.to_string(), text);
    assert_eq!(text.parse(), Ok(trim));
    let command = format!("lazybase-sim --show 7 --trim {text}");
    assert_eq!(trim.command(7), command);
}

#[test]
fn nothing_is_said_of_a_whole_story() {
    assert_eq!(Trim::NOTHING.to_string(), "");
    assert_eq!("".parse(), Ok(Trim::NOTHING));
    assert_eq!("shape=drawn,faults=true,".parse(), Ok(Trim::NOTHING));
    assert_eq!(Trim::NOTHING.command(7), "lazybase-sim --show 7");
    let planted = Trim {
        planted: Some(Planted::IdShared),
        ..Trim::NOTHING
    };
    let command = "lazybase-sim --show 7 --plant IdShared";
    assert_eq!(planted.command(7), command);
}

#[test]
fn what_nobody_can_leave_out_is_refused() {
    for (text, told) in [
        ("faults", "form"),
        ("fault=false", "faults"),
        ("faults=no", "faults"),
        ("shape=round", "round"),
        ("lives=1,writers=-1", "writers"),
        ("planted=IdShared", "no part"),
    ] {
        let refused = text.parse::<Trim>().unwrap_err();
        assert!(refused.contains(told), "{text}: {refused}");
    }
}
