//! Chooses the board by the target, and tells the linker where its memory is.

fn main() {
    let target = std::env::var("TARGET").expect("set by cargo");
    let board = match target.split('-').next() {
        Some("thumbv6m") => "microbit",
        Some("thumbv7m") => "lm3s6965evb",
        Some("riscv32imc" | "riscv32imac") => "virt",
        Some("wasm32") => "node",
        _ => panic!("no board for {target}"),
    };
    println!("cargo::rustc-check-cfg=cfg(board, values(any()))");
    println!("cargo::rustc-cfg=board=\"{board}\"");
    println!("cargo::rerun-if-changed=boards/{board}");
    if board != "node" {
        let folder = std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
        println!("cargo::rustc-link-search={folder}/boards/{board}");
        println!("cargo::rustc-link-arg-bins=-Tlink.x");
    }
}
