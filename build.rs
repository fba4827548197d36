//! Makes the C header's text from the sources (for the drift test), and sets the library's name and manners.

use std::env;
use std::path::PathBuf;

/// The number in the soname: MCP_ABI_VERSION.
const ABI: u32 = 1;

fn main() {
    println!("cargo:rerun-if-changed=src/ffi");
    println!("cargo:rerun-if-changed=cbindgen.toml");
    println!("cargo:rerun-if-changed=build.rs");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml is valid");
    // Only into OUT_DIR: a build script must not write into the tree. tests/header.rs compares, and blesses.
    cbindgen::Builder::new()
        .with_crate(&root)
        .with_config(config)
        .generate()
        .expect("src/ffi can be read by cbindgen")
        .write_to_file(out.join("mcpnative.h"));
    link(&env::var("CARGO_CFG_TARGET_OS").expect("cargo sets it"));
}

fn link(os: &str) {
    match os {
        "linux" | "android" | "freebsd" | "netbsd" | "openbsd" => {
            println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmcpnative.so.{ABI}");
            // The library stays loaded: a thread-local destructor of ours may run when a host thread ends.
            println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        }
        "macos" => println!("cargo:rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libmcpnative.{ABI}.dylib"),
        _ => {}
    }
}
