//! What the programs take of the board's memory.

use std::path::Path;

use super::image::{
    CODEC, FULL_LOCK, LOCK, LOCK_ON_RISC_V, LOCK_ON_RISC_V_WITHOUT_ATOMICS, LOCK_WITHOUT_ATOMICS,
    Program, READ_WRITE_LOCK, Size,
};

/// The limits leave no room to grow unnoticed.
#[test]
fn the_programs_fit() {
    for (program, flash, ram) in [
        (LOCK, 56_000, 6_400),
        (READ_WRITE_LOCK, 56_000, 6_400),
        (FULL_LOCK, 79_000, 6_400),
        (CODEC, 5_120, 16),
    ] {
        let Some(image) = program.build_or_skip() else { return };
        let size = Size::of(&image);
        println!("{program:?}: {size:?}");
        assert!(size.flash <= flash && size.ram <= ram, "{program:?}: {size:?}");
    }
}

/// Prints the tables in docs/embedding.md as they should be.
#[test]
#[ignore = "links the lock many times"]
fn the_tables_of_sizes_are_right() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/embedding.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let flash = |features: &'static str| {
        let image = Program { features, ..LOCK }.build_or_skip()?;
        Some(Size::of(&image).flash)
    };
    let Some(least) = flash("lock") else { return };
    let mut wrong = Vec::new();
    let mut check = |name: &str, bytes: usize| {
        let start = format!("| {name} | ");
        println!("{start}{} | {} |", thousands(bytes), thousands(bytes.saturating_sub(least)));
        let rows = page.lines().filter_map(|line| line.strip_prefix(&start)?.split(" |").next());
        let said = rows.flat_map(|cell| cell.replace(',', "").parse::<usize>()).next();
        if said.is_none_or(|said| said.abs_diff(bytes) * 100 > 3 * bytes) {
            wrong.push(format!("{name}: {said:?} instead of {bytes}"));
        }
    };
    check("none", least);
    for (name, features) in [
        ("`zk-session/full`", "lock,zk-session/full"),
        ("`zk-recipes/full`", "lock,zk-recipes/full"),
    ] {
        check(name, flash(features).expect("nothing was missing before"));
    }
    let locks = [
        ("a mutex", LOCK),
        ("`read-write`", READ_WRITE_LOCK),
        ("`read-write`, `zk-recipes/full`", FULL_LOCK),
    ];
    for (name, program) in locks {
        check(name, flash(program.features).expect("nothing was missing before"));
    }
    let others = [LOCK_WITHOUT_ATOMICS, LOCK_ON_RISC_V, LOCK_ON_RISC_V_WITHOUT_ATOMICS];
    for program in [LOCK].into_iter().chain(others) {
        let Some(image) = program.build_or_skip() else { return };
        check(&format!("`{}`", program.target), Size::of(&image).flash);
    }
    assert_eq!(wrong, Vec::<String>::new());
}

fn thousands(number: usize) -> String {
    match number / 1000 {
        0 => number.to_string(),
        thousands => format!("{thousands},{:03}", number % 1000),
    }
}
