//! V14 to V16: aliasing tables and the entry's layout.

use indexmap::IndexSet;

use super::Verifier;
use crate::attribute::AttrForm;
use crate::diagnostic::shortened;
use crate::shape::ShapeRef;
use crate::{ArrayShape, AttrKey, AttrValue, Instruction, Module, Shape};

/// V15 and V16.
pub(super) fn check(verifier: &mut Verifier<'_>) {
    for attribute in &verifier.module.attributes {
        if let (AttrValue::Raw(text), false) = (&attribute.value, is_verbatim(&attribute.key)) {
            verifier.report_header("V15", &format!("attribute {} cannot be {}", attribute.key.name(), shortened(text)));
        }
    }
    if let Err(message) = check_aliases(verifier) {
        verifier.report_header("V15", &message);
    }
    if let Err(message) = check_entry_layout(verifier) {
        verifier.report_header("V16", &message);
    }
}

/// Whether a header attribute is kept verbatim, so that any value will do.
fn is_verbatim(key: &AttrKey) -> bool {
    AttrKey::from_name(key.name()).1 == AttrForm::Raw
}

/// The part of a shape an index names, which must be an array.
fn array_at<'s>(shape: &'s Shape, index: &[i64], what: &str) -> Result<&'s ArrayShape, String> {
    let part = shape.at(index).ok_or_else(|| format!("{what} {shape} has no part {index:?}"))?;
    part.as_array().ok_or_else(|| format!("part {index:?} of {what} {shape} is no array"))
}

/// V14.
pub(super) fn check_output_aliases(module: &Module, inst: &Instruction) -> Result<(), String> {
    let Some(AttrValue::Aliases(aliases)) = inst.attribute(&AttrKey::OutputToOperandAliasing) else { return Ok(()) };
    for alias in aliases.iter() {
        let operand = usize::try_from(alias.operand).ok().and_then(|index| inst.operands.get(index));
        let operand = operand.ok_or_else(|| format!("output aliases name operand {}", alias.operand))?;
        let index = alias.output.as_slice();
        if inst.shape.at(index).is_none() {
            return Err(format!("output aliases name part {index:?} of {}", inst.shape));
        }
        let shape = module.shape(*operand);
        if shape.at(&alias.operand_index).is_none() {
            return Err(format!("output aliases name part {:?} of {shape}", alias.operand_index.as_slice()));
        }
    }
    Ok(())
}

/// V15.
fn check_aliases(verifier: &Verifier<'_>) -> Result<(), String> {
    let module = verifier.module;
    let entry = module.entry();
    let result = module.shape(module.computation(entry).root);
    let parameter = |number: i64| {
        let id = usize::try_from(number).ok().and_then(|number| verifier.parameters[entry].get(number));
        id.map(|&id| module.shape(id)).ok_or_else(|| format!("the entry has no parameter {number} to give away"))
    };
    let (mut outputs, mut inputs) = (IndexSet::new(), IndexSet::new());
    for alias in module.input_output_aliases() {
        if !["", "may-alias", "must-alias"].contains(&alias.kind.as_str()) {
            return Err(format!("input_output_alias has kind {}, but must have may-alias or must-alias", alias.kind));
        }
        let output = array_at(result, &alias.output, "the result")?;
        let input = array_at(parameter(alias.operand)?, &alias.operand_index, "the parameter")?;
        if !outputs.insert(&alias.output) || !inputs.insert((alias.operand, &alias.operand_index)) {
            return Err(format!("input_output_alias names output {:?} or its input twice", alias.output.as_slice()));
        }
        if !same_bytes(output, input) {
            return Err(format!("output {:?} of shape {output} cannot reuse {input}", alias.output.as_slice()));
        }
    }
    if let Some(AttrValue::Donors(donors)) = module.attribute(&AttrKey::BufferDonor) {
        for (number, index) in donors.iter() {
            array_at(parameter(*number)?, index, "the parameter")?;
        }
    }
    Ok(())
}

/// Whether two arrays take equally many bytes, as far as that is known: layout annotations may add padding.
fn same_bytes(a: &ArrayShape, b: &ArrayShape) -> bool {
    let annotated = |shape: &ArrayShape| shape.layout.as_ref().is_some_and(|layout| !layout.suffix.is_empty());
    let bits = |shape: &ArrayShape| Some(u128::from(shape.elements()?) * u128::from(shape.element_type.storage_bits()));
    annotated(a) || annotated(b) || a.is_dynamic() || b.is_dynamic() || bits(a) == bits(b)
}

/// V16.
fn check_entry_layout(verifier: &Verifier<'_>) -> Result<(), String> {
    let module = verifier.module;
    let Some((parameters, result)) = module.entry_layout() else { return Ok(()) };
    let entry = module.entry();
    let own = &verifier.parameters[entry];
    if own.len() != parameters.len() {
        let (own, listed) = (own.len(), parameters.len());
        return Err(format!("entry_computation_layout lists {listed} parameters, but the entry has {own}"));
    }
    let check = |what: String, listed: &ShapeRef, own: &Shape| {
        let (written, actual) = (listed.without_layout(), own.without_layout());
        let message = format!("entry_computation_layout gives {what} shape {written}, but it has {actual}");
        if listed.compatible(own) { Ok(()) } else { Err(message) }
    };
    for (number, (&id, listed)) in own.iter().zip(&parameters).enumerate() {
        check(format!("parameter {number}"), listed, module.shape(id))?;
    }
    check("the result".into(), &result, module.shape(module.computation(entry).root))
}
