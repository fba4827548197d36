//! The examples of the README are scripts.
#![allow(missing_docs, clippy::unwrap_used)]

use mcp_test_server::Script;

#[test]
fn every_example_is_a_script() {
    let readme = include_str!("../README.md");
    let examples: Vec<&str> = readme.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 5);
    for example in examples {
        Script::parse(example).unwrap_or_else(|error| panic!("{error}\n{example}"));
    }
}
