//! What crates.io asks of a manifest: who publishes a crate finds out here, not there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use toml::{Table, Value};

use crate::common::{root, text};

/// Crates for users of Rust, each behind those that it needs.
const PUBLISHED: [&str; 4] = ["ir", "memory", "passes", "."];
/// Crates that are no use to them: Python's extension comes as a wheel, and fuzz targets are for this repository.
const UNPUBLISHED: [&str; 2] = ["python", "fuzz"];

fn manifest(folder: &str) -> Table {
    text(Path::new(folder).join("Cargo.toml")).parse().unwrap()
}

/// A field of a package, or that of the workspace if the package takes it from there.
fn field<'m>(package: &'m Table, workspace: &'m Table, name: &str) -> Option<&'m Value> {
    let own = package.get(name)?;
    let inherits = own.get("workspace").is_some();
    if inherits { workspace["workspace"]["package"].get(name) } else { Some(own) }
}

#[test]
fn published_crates_say_what_crates_io_asks_for() {
    let workspace = manifest(".");
    for folder in PUBLISHED {
        let manifest = manifest(folder);
        let package = manifest["package"].as_table().unwrap();
        let of = |name| field(package, &workspace, name).unwrap_or_else(|| panic!("{folder}: no {name}"));
        for name in ["name", "version", "description", "license", "rust-version"] {
            assert!(!of(name).as_str().unwrap().is_empty(), "{folder}: {name}");
        }
        assert!(root().join(of("readme").as_str().unwrap()).exists(), "{folder}: no page for readers");
        for name in ["keywords", "categories"] {
            assert!((1..=5).contains(&of(name).as_array().unwrap().len()), "{folder}: crates.io takes five {name}");
        }
        let keywords = of("keywords").as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        assert!(keywords.clone().all(|word| word.len() <= 20), "{folder}: crates.io takes keywords of 20 letters");
        assert!(package.get("publish").is_none(), "{folder}: is it for users or not?");
    }
    for folder in UNPUBLISHED {
        assert_eq!(manifest(folder)["package"].get("publish"), Some(&Value::Boolean(false)), "{folder}");
    }
}

/// crates.io knows no paths: a crate of the workspace is asked for by its version too, which is that of the workspace.
#[test]
fn crates_of_the_workspace_have_versions() {
    let workspace = manifest(".");
    let version = &workspace["workspace"]["package"]["version"];
    let all = workspace["workspace"]["dependencies"].as_table().unwrap();
    let ours: Vec<_> = all.iter().filter(|(_, dependency)| dependency.get("path").is_some()).collect();
    assert_eq!(ours.len(), PUBLISHED.len() - 1, "the libraries");
    for (name, dependency) in ours {
        assert_eq!(dependency.get("version"), Some(version), "{name}: version in the list of dependencies");
    }
    for folder in PUBLISHED {
        let manifest = manifest(folder);
        for (name, dependency) in
            ["dependencies", "dev-dependencies"].iter().filter_map(|kind| manifest.get(*kind)?.as_table()).flatten()
        {
            assert!(dependency.get("path").is_none(), "{folder}: {name} is asked for by its path alone");
        }
    }
}

/// What the crate of the command includes by path is part of its package.
#[test]
fn the_package_of_the_command_holds_what_its_sources_include() {
    let manifest = manifest(".");
    let include: Vec<&str> =
        manifest["package"]["include"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
    for path in &include {
        assert!(root().join(&path[1..]).exists(), "there is no {path}");
    }
    let pages = text("src/explain.rs");
    let included: Vec<&str> =
        pages.split("include_str!(\"..").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(!included.is_empty(), "pages are included as this test reads them");
    for page in included {
        assert!(include.contains(&page), "Cargo.toml does not include {page}");
    }
}

/// Crates of a build with the features that they have in it; some are built twice, for the build itself and for what it makes.
fn features(arguments: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let mut cargo = Command::new(env!("CARGO"));
    // Of one target, since each has crates of its own.
    cargo.args(["tree", "--locked", "--target=x86_64-unknown-linux-gnu", "--prefix=none", "--format={p} [{f}]"]);
    cargo.args(arguments).current_dir(root());
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let Some((package, features)) = line.trim_end_matches(" (*)").rsplit_once(" [") else { continue };
        let name = package.split(' ').take(2).collect::<Vec<_>>().join(" ");
        found.entry(name).or_default().insert(features.to_owned());
    }
    found
}

/// `tests/python.rs` builds a wheel. A crate that has other features there is built a second time, and so is every crate that needs it: minutes.
#[test]
fn the_wheel_is_built_from_the_crates_of_the_tests() {
    let tests = features(&["--workspace", "--edges=all"]);
    let wheel = features(&["--package=hlo-opt-python", "--edges=normal,build"]);
    assert!(wheel.len() > 50, "{wheel:?}");
    let other = wheel.iter().filter(|(name, features)| tests.get(*name) != Some(features));
    let other: Vec<String> =
        other.map(|(name, features)| format!("{name}: {features:?}, in tests {:?}", tests.get(name))).collect();
    assert!(other.is_empty(), "name these features in python/Cargo.toml:\n{}", other.join("\n"));
}
