//! Converts between the two forms of a dump: `proto FILE.hlo OUT.pb` or `proto FILE.pb OUT.hlo`.

use std::error::Error;
use std::{env, fs};

use hlo_ir::{Diagnostic, proto, text};

fn first(problems: Vec<Diagnostic>) -> Box<dyn Error> {
    problems.into_iter().next().expect("a failure has a reason").into()
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let [_, input, output] = arguments.as_slice() else { return Err("two file names expected".into()) };
    let bytes = fs::read(input)?;
    if proto::looks_like_proto(&bytes) {
        fs::write(output, text::print(&proto::read(&bytes).map_err(first)?.module))?;
    } else {
        let module = text::parse(std::str::from_utf8(&bytes)?).map_err(first)?;
        fs::write(output, proto::write(&module).map_err(first)?.bytes)?;
    }
    Ok(())
}
