//! The examples run, and find what they say.

#[path = "../examples/build_and_verify.rs"]
mod build_and_verify;
#[path = "../examples/own_source.rs"]
mod own_source;
#[path = "../examples/read_verified.rs"]
mod read_verified;

#[test]
fn an_image_is_built_and_damage_found() {
    build_and_verify::main().unwrap();
}

#[test]
fn a_source_of_ones_own_is_verified() {
    own_source::main().unwrap();
}

#[test]
fn an_image_is_read() {
    read_verified::main().unwrap();
}
