//! Texts made to break a parser: deep nesting, huge numbers, many names. Each ends in a message, or is read in linear time.
//!
//! Pins `ir/src/text/mod.rs`, `ir/src/text/shape.rs`, `ir/src/text/lex.rs`.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use hlo_ir::text;

/// The messages about a text that cannot be read.
fn messages(source: &str) -> Vec<String> {
    text::parse(source).expect_err("the text cannot be read").into_iter().map(|problem| problem.message).collect()
}

#[test]
fn deep_nesting_is_refused() {
    let tuple =
        format!("HloModule m\nENTRY e {{ x = {}f32[]{} parameter(0) }}", "(".repeat(50_000), ")".repeat(50_000));
    assert_eq!(messages(&tuple), ["shapes are nested deeper than 256 levels"]);
    let (open, close) = ("negate(".repeat(50_000), ")".repeat(50_000));
    let operand = format!("HloModule m\nENTRY e {{ x = f32[] parameter(0) y = {open}x{close} }}");
    assert_eq!(messages(&operand), ["operands are nested deeper than 64 levels"]);
    let inline = "c = f32[] call(), to_apply={ ".repeat(50_000);
    assert_eq!(
        messages(&format!("HloModule m\nENTRY e {{ {inline}")),
        ["inline computations are nested deeper than 64 levels"]
    );
    let braces = format!("HloModule m\nENTRY e {{ x = f32[] parameter(0), a={}", "{".repeat(1_000_000));
    assert_eq!(messages(&braces), ["this `{` is never closed"]);
}

#[test]
fn an_error_inside_does_not_use_up_the_depth() {
    let line = "  y = f32[] negate(negate(frob(x)))\n".repeat(10);
    let source =
        format!("HloModule m\nENTRY e {{\n  x = f32[] parameter(0)\n{line}  z = f32[] negate(negate(negate(x)))\n}}\n");
    assert!(messages(&source).iter().all(|message| message.contains("`frob`")), "{source}");
}

#[test]
fn huge_arrays_are_read() {
    let source = "HloModule m\nENTRY e { ROOT x = f32[9223372036854775807,9223372036854775807]{1,0} parameter(0) }";
    let module = text::parse(source).expect("sizes up to 2^63-1 are legal");
    assert!(hlo_ir::verify::verify(&module).is_empty());
    let shape = module.instruction(module.computation(module.entry()).root).array().expect("an array");
    assert_eq!(shape.elements(), None);
}

#[test]
fn one_computation_of_many_instructions_takes_linear_time() {
    let seconds = |count: usize| {
        let mut source = String::from("HloModule m\n\nENTRY %e (x: f32[]) -> f32[] {\n  %v0 = f32[] parameter(0)\n");
        for index in 1..count {
            let before = index / 2;
            writeln!(source, "  %v{index} = f32[] add(%v{before}, negate(%v{before})), metadata={{op_name=\"v\"}}")
                .expect("writing to a string cannot fail");
        }
        source.push_str("}\n");
        let run = || {
            let start = Instant::now();
            let module = text::parse(&source).expect("a legal text");
            assert_eq!(module.instruction_count(), 2 * count - 1);
            assert!(hlo_ir::verify::verify(&module).is_empty());
            text::print(&module);
            start.elapsed()
        };
        (0..3).map(|_| run()).min().unwrap_or(Duration::MAX).as_secs_f64()
    };
    let (small, large) = (seconds(1_000), seconds(20_000));
    // Twenty times the text; four hundred times the time would be quadratic.
    assert!(large < 100.0 * small, "{small} s, then {large} s");
}

#[test]
fn arrays_of_many_dimensions_print_back() {
    let (sizes, order) =
        (vec!["1"; 70].join(","), (0..70).rev().map(|dim| dim.to_string()).collect::<Vec<_>>().join(","));
    let source = format!("HloModule m\n\nENTRY e {{\n  ROOT x = f32[{sizes}]{{{order}}} parameter(0)\n}}\n");
    let module = text::parse(&source).expect("a legal text");
    assert_eq!(text::print(&module), source);
    let dynamic = source.replace("1]{", "<=1]{");
    assert_eq!(messages(&dynamic), ["only the first 64 dimensions of an array can be dynamic"]);
}

/// Every kind of bracket, 100,000 deep, closed or not, wherever the grammar nests: a message, never a crash.
#[test]
fn a_hundred_thousand_brackets_are_no_crash_anywhere() {
    const DEPTH: usize = 100_000;
    let places = [
        ("x = ", " parameter(0)"),
        ("x = f32[] constant(", ")"),
        ("x = f32[2] constant({1,", "})"),
        ("x = f32[] parameter(0), sharding=", ""),
        ("x = f32[] parameter(0), metadata=", ""),
        ("x = f32[] parameter(0), backend_config=", ""),
        ("x = f32[] parameter(0), brand_new=", ""),
        ("x = f32[] custom-call(), custom_call_target=\"f\", operand_layout_constraints=", ""),
        ("x = f32[] parameter(0), window=", ""),
        ("x = f32[] parameter(0), output_to_operand_aliasing=", ""),
        ("x = f32[2]{0:", "} parameter(0)"),
        ("x = f32[] brand-new(", ")"),
        ("x = f32[] negate(", ")"),
    ];
    for (open, close) in [("{", ""), ("{", "}"), ("(", ")"), ("[", "]"), ("(f32[],", ")")] {
        let nested = open.repeat(DEPTH) + &close.repeat(DEPTH);
        for (before, behind) in places {
            let source = format!("HloModule m\nENTRY e {{\n  {before}{nested}{behind}\n}}\n");
            if let Ok(module) = text::parse(&source) {
                hlo_ir::verify::verify(&module);
                text::print(&module);
                let _ = hlo_ir::proto::write(&module);
            }
        }
    }
}

/// What a shape claims is not what is allocated: the literals of these shapes would not fit any memory.
#[test]
fn a_claimed_size_is_not_allocated() {
    for literal in ["{}", "{...}", "1", "{ {1} }"] {
        for shape in ["f32[9223372036854775807]", "s4[1000000,1000000,1000000]", "(f32[99999999999], f32[99999999999])"]
        {
            let source = format!("HloModule m\nENTRY e {{\n  ROOT c = {shape} constant({literal})\n}}\n");
            let module = text::parse(&source).expect("literals are read as text");
            hlo_ir::verify::verify(&module);
            let _ = hlo_ir::proto::write(&module);
        }
    }
    let wide = format!(
        "HloModule m\nENTRY e {{\n  ROOT x = f32[{}] parameter(0)\n}}\n",
        "9223372036854775807,".repeat(60) + "2"
    );
    hlo_ir::verify::verify(&text::parse(&wide).expect("sizes up to 2^63-1 are legal"));
}
