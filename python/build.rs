//! Tells the linker that Python's symbols come from the process that loads the extension (macOS asks; elsewhere this does nothing).

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
