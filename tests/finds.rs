//! Inputs that once broke a law, as the fuzz targets found them; the name of a file says which target's and what was wrong. Each is tried
//! on every law, since what broke one may break another.
//!
//! Pins `fuzz/src/lib.rs`.

#[allow(dead_code, unreachable_pub, reason = "a library there, a part of this test here")]
#[path = "../fuzz/src/lib.rs"]
mod laws;

use std::path::Path;

#[test]
fn what_was_found_once_stays_fixed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/finds");
    let mut tried = 0;
    for entry in folder.read_dir().expect("the finds lie beside this test") {
        let path = entry.expect("a readable folder").path();
        let bytes = std::fs::read(&path).expect("a readable file");
        for (name, law) in laws::LAWS {
            let outcome = std::panic::catch_unwind(|| law(&bytes));
            assert!(outcome.is_ok(), "{} breaks the law of {name}", path.display());
        }
        tried += 1;
    }
    assert!(tried > 0, "no find is kept");
}
