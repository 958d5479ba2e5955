//! Attributes of instructions to the fields of their message.

use super::message::{dims as pb_dims, module as pb};
use super::scan::{Cursor, Fit};
use super::sharding::{self, Groups};
use super::{convolution, literal, metadata, names, shape};
use crate::attribute::Alias;
use crate::{AttrValue, Attribute, Instruction, Module, Opcode, Shape, text};

/// What a message holds when the text says nothing, as XLA's text parser fills it in.
pub(super) fn defaults(module: &Module, inst: &Instruction, to: &mut pb::HloInstruction) {
    use Opcode as O;
    if matches!(inst.opcode, O::Convolution | O::CustomCall) {
        (to.feature_group_count, to.batch_group_count) = (1, 1);
    }
    if matches!(inst.opcode, O::Convolution | O::CustomCall | O::Dot | O::RaggedDot | O::ScaledDot) {
        let operand_precision = vec![0; inst.operands.len()];
        to.precision_config = Some(pb_dims::PrecisionConfig { operand_precision, algorithm: 0 });
    }
    match inst.opcode {
        O::Convolution | O::ReduceWindow | O::SelectAndScatter => to.window = Some(pb_dims::Window::default()),
        O::CustomCall => to.custom_call_api_version = 1,
        O::Outfeed => {
            to.outfeed_shape = inst.operands.first().and_then(|&operand| shape::write(module.shape(operand)).ok());
        }
        O::Pad => to.padding_config = Some(pb_dims::PaddingConfig::default()),
        O::Dot | O::ScaledDot => to.dot_dimension_numbers = Some(pb_dims::DotDimensionNumbers::default()),
        O::Gather => to.gather_dimension_numbers = Some(pb_dims::GatherDimensionNumbers::default()),
        O::Scatter => to.scatter_dimension_numbers = Some(pb_dims::ScatterDimensionNumbers::default()),
        O::Cholesky => to.cholesky_options = Some(pb_dims::CholeskyOptions::default()),
        O::TriangularSolve => {
            to.triangular_solve_options =
                Some(pb_dims::TriangularSolveOptions { transpose_a: 1, ..Default::default() });
        }
        O::Compare => names::default_comparison(module, inst).clone_into(&mut to.comparison_type),
        O::RaggedDot => {
            let dims = pb_dims::RaggedDotDimensionNumbers {
                dot_dimension_numbers: Some(pb_dims::DotDimensionNumbers::default()),
                ..Default::default()
            };
            to.ragged_dot_dimension_numbers = Some(dims);
        }
        _ => {}
    }
}

/// A value in the form its field wants.
#[derive(Clone, Copy)]
struct Value<'a>(&'a AttrValue);

impl<'a> Value<'a> {
    fn text(self) -> Fit<&'a str> {
        self.0.text().ok_or_else(|| "a text expected".to_owned())
    }
    /// Reads the whole text.
    fn with<T>(self, read: impl FnOnce(&mut Cursor<'a>) -> Fit<T>) -> Fit<T> {
        let mut cursor = Cursor::new(self.text()?);
        let value = read(&mut cursor)?;
        cursor.end()?;
        Ok(value)
    }
    fn int(self) -> Fit<i64> {
        match self.0 {
            AttrValue::Int(value) => Ok(*value),
            _ => self.with(Cursor::int),
        }
    }
    fn small(self) -> Fit<i32> {
        let value = self.int()?;
        i32::try_from(value).map_err(|_| format!("{value} is out of range"))
    }
    fn flag(self) -> Fit<bool> {
        match self.0 {
            AttrValue::Bool(value) => Ok(*value),
            _ => self.with(Cursor::flag),
        }
    }
    fn ints(self) -> Fit<Vec<i64>> {
        match self.0 {
            AttrValue::Ints(values) => Ok(values.to_vec()),
            _ => self.with(Cursor::ints),
        }
    }
    fn string(self) -> Fit<String> {
        self.with(Cursor::string)
    }
    /// A quoted string or a dictionary.
    fn config(self) -> Fit<Vec<u8>> {
        self.with(
            |cursor| if cursor.peek() == Some(b'{') { Ok(cursor.dict()?.as_bytes().to_vec()) } else { cursor.bytes() },
        )
    }
    fn number_in(self, table: names::Table) -> Fit<i32> {
        names::number(table, self.text()?)
    }
}

/// Sets the field of an attribute.
pub(super) fn set(inst: &Instruction, attribute: &Attribute, to: &mut pb::HloInstruction) -> Fit<()> {
    let value = Value(&attribute.value);
    let key = attribute.key.name();
    if dimension_numbers(inst, key, value, to)? || option(inst, key, value, to)? || common(inst, key, value, to)? {
        return Ok(());
    }
    if custom_call(key, value, to)? || collective(inst, key, value, to)? {
        return Ok(());
    }
    Err("it has no field that is known".to_owned())
}

/// Dimensions, slices, windows and dimension numbers.
fn dimension_numbers(inst: &Instruction, key: &str, value: Value<'_>, to: &mut pb::HloInstruction) -> Fit<bool> {
    if gather_scatter(inst, key, value, to)? || dot(inst, key, value, to)? {
        return Ok(true);
    }
    match (key, value.0) {
        ("dimensions", _) => to.dimensions = value.ints()?,
        ("iota_dimension" | "inferred_dimension", _) => to.dimensions = vec![value.int()?],
        ("slice", AttrValue::Slice(dims)) => {
            let dim = |dim: &crate::attribute::SliceDim| pb_dims::SliceDimensions {
                start: dim.start,
                limit: dim.limit,
                stride: dim.stride,
            };
            to.slice_dimensions = dims.iter().map(dim).collect();
        }
        ("dynamic_slice_sizes", _) => to.dynamic_slice_sizes = value.ints()?,
        ("padding", AttrValue::Padding(dims)) => {
            let dim = |dim: &crate::attribute::PadDim| pb_dims::PaddingDimension {
                edge_padding_low: dim.low,
                edge_padding_high: dim.high,
                interior_padding: dim.interior,
            };
            to.padding_config = Some(pb_dims::PaddingConfig { dimensions: dims.iter().map(dim).collect() });
        }
        ("window", AttrValue::Window(dims)) => {
            let dimensions = dims.iter().map(convolution::window_dimension).collect();
            to.window = Some(pb_dims::Window { dimensions });
        }
        ("dim_labels", _) => to.convolution_dimension_numbers = Some(convolution::write_labels(value.text()?)?),
        ("feature_group_count", _) => to.feature_group_count = value.int()?,
        ("batch_group_count", _) => to.batch_group_count = value.int()?,
        ("convolution_kind", _) => to.conv_kind = value.number_in(names::CONVOLUTION_KIND)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn gather_scatter(inst: &Instruction, key: &str, value: Value<'_>, to: &mut pb::HloInstruction) -> Fit<bool> {
    if inst.opcode == Opcode::Gather {
        let dims = to.gather_dimension_numbers.get_or_insert_default();
        match key {
            "offset_dims" => dims.offset_dims = value.ints()?,
            "collapsed_slice_dims" => dims.collapsed_slice_dims = value.ints()?,
            "start_index_map" => dims.start_index_map = value.ints()?,
            "operand_batching_dims" => dims.operand_batching_dims = value.ints()?,
            "start_indices_batching_dims" => dims.start_indices_batching_dims = value.ints()?,
            "index_vector_dim" => dims.index_vector_dim = value.int()?,
            "slice_sizes" => to.gather_slice_sizes = value.ints()?,
            _ => return Ok(false),
        }
        return Ok(true);
    }
    if inst.opcode != Opcode::Scatter {
        return Ok(false);
    }
    let dims = to.scatter_dimension_numbers.get_or_insert_default();
    match key {
        "update_window_dims" => dims.update_window_dims = value.ints()?,
        "inserted_window_dims" => dims.inserted_window_dims = value.ints()?,
        "scatter_dims_to_operand_dims" => dims.scatter_dims_to_operand_dims = value.ints()?,
        "input_batching_dims" => dims.input_batching_dims = value.ints()?,
        "scatter_indices_batching_dims" => dims.scatter_indices_batching_dims = value.ints()?,
        "index_vector_dim" => dims.index_vector_dim = value.int()?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn dot(inst: &Instruction, key: &str, value: Value<'_>, to: &mut pb::HloInstruction) -> Fit<bool> {
    if inst.opcode == Opcode::RaggedDot {
        let ragged = to.ragged_dot_dimension_numbers.get_or_insert_default();
        match key {
            "lhs_ragged_dims" => ragged.lhs_ragged_dimensions = value.ints()?,
            "rhs_group_dims" => ragged.rhs_group_dimensions = value.ints()?,
            _ => return dot_dims(key, value, ragged.dot_dimension_numbers.get_or_insert_default()),
        }
        return Ok(true);
    }
    if matches!(inst.opcode, Opcode::Dot | Opcode::ScaledDot) {
        return dot_dims(key, value, to.dot_dimension_numbers.get_or_insert_default());
    }
    Ok(false)
}

fn dot_dims(key: &str, value: Value<'_>, dims: &mut pb_dims::DotDimensionNumbers) -> Fit<bool> {
    match key {
        "lhs_batch_dims" => dims.lhs_batch_dimensions = value.ints()?,
        "lhs_contracting_dims" => dims.lhs_contracting_dimensions = value.ints()?,
        "rhs_batch_dims" => dims.rhs_batch_dimensions = value.ints()?,
        "rhs_contracting_dims" => dims.rhs_contracting_dimensions = value.ints()?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Options of single opcodes.
fn option(inst: &Instruction, key: &str, value: Value<'_>, to: &mut pb::HloInstruction) -> Fit<bool> {
    match key {
        "indices_are_sorted" => to.indices_are_sorted = value.flag()?,
        "unique_indices" => to.unique_indices = value.flag()?,
        "direction" => value.text()?.clone_into(&mut to.comparison_direction),
        "type" => value.text()?.clone_into(&mut to.comparison_type),
        "is_stable" => to.is_stable = value.flag()?,
        "fft_type" => to.fft_type = value.number_in(names::FFT_TYPE)?,
        "fft_length" => to.fft_length = value.ints()?,
        "lower" if inst.opcode == Opcode::Cholesky => {
            to.cholesky_options.get_or_insert_default().lower = value.flag()?;
        }
        "left_side" => to.triangular_solve_options.get_or_insert_default().left_side = value.flag()?,
        "lower" => to.triangular_solve_options.get_or_insert_default().lower = value.flag()?,
        "unit_diagonal" => to.triangular_solve_options.get_or_insert_default().unit_diagonal = value.flag()?,
        "transpose_a" => {
            to.triangular_solve_options.get_or_insert_default().transpose_a = value.number_in(names::TRANSPOSE)?;
        }
        "exponent_bits" => to.exponent_bits = value.small()?,
        "mantissa_bits" => to.mantissa_bits = value.small()?,
        "k" => to.k = value.int()?,
        "largest" => to.largest = value.flag()?,
        "index" => to.tuple_index = value.int()?,
        "kind" => value.text()?.clone_into(&mut to.fusion_kind),
        "epsilon" => to.epsilon = value.with(Cursor::float)? as f32,
        "feature_index" => to.feature_index = value.int()?,
        "distribution" => to.distribution = value.number_in(names::DISTRIBUTION)?,
        "delta" => to.delta = value.int()?,
        "algorithm" if inst.opcode == Opcode::RngBitGenerator => {
            to.rng_algorithm = value.number_in(names::RNG_ALGORITHM)?;
        }
        "algorithm" => to.precision_config.get_or_insert_default().algorithm = value.number_in(names::DOT_ALGORITHM)?,
        "operand_precision" => {
            let precision = value
                .with(|cursor| cursor.list(("{", "}"), |cursor| names::number(names::PRECISION, cursor.word()?)))?;
            to.precision_config.get_or_insert_default().operand_precision = precision;
        }
        "is_reverse" => to.is_reverse = value.flag()?,
        "num_carries" => to.num_carries = value.int()?,
        "is_associative" => to.is_associative = if value.flag()? { 1 } else { 2 },
        "is_composite" => to.is_composite = value.flag()?,
        "infeed_config" => to.infeed_config = value.config()?,
        "outfeed_config" => to.outfeed_config = value.config()?,
        "outfeed_shape" => to.outfeed_shape = Some(shape::write(one_shape(value.text()?)?.as_ref())?),
        "is_host_transfer" => to.is_host_transfer = value.flag()?,
        "cross_program_prefetch_index" => to.cross_program_prefetch_index = Some(value.small()?),
        "async_execution_thread" => {
            let thread = value.string()?;
            to.async_execution_thread = if thread == "main" { String::new() } else { thread };
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// What any instruction may have.
fn common(inst: &Instruction, key: &str, value: Value<'_>, to: &mut pb::HloInstruction) -> Fit<bool> {
    if matches!(value.0, AttrValue::Computation(_) | AttrValue::Computations(_) | AttrValue::Instructions(_)) {
        return Ok(true);
    }
    match (key, value.0) {
        ("sharding", _) => to.sharding = Some(sharding::write(value.text()?)?),
        ("frontend_attributes", _) => to.frontend_attributes = Some(metadata::frontend(value.text()?)?),
        ("statistics", _) => to.statistics_viz = Some(metadata::statistics(value.text()?)?),
        ("origin", _) => to.original_value = Some(value.with(super::origin::write)?),
        ("result_accuracy", _) => to.result_accuracy = Some(metadata::accuracy(value.text()?)?),
        ("metadata", _) => to.metadata = Some(value.with(metadata::write)?),
        ("backend_config", _) => to.backend_config = value.config()?,
        ("parameter_replication", _) => {
            let replicated_at_leaf_buffers = value.with(|cursor| cursor.list(("{", "}"), Cursor::flag))?;
            to.parameter_replication = Some(pb_dims::ParameterReplication { replicated_at_leaf_buffers });
        }
        ("output_to_operand_aliasing", AttrValue::Aliases(entries)) => {
            let entry = |alias: &Alias| pb_dims::OutputOperandAliasing {
                output_shape_index: alias.output.to_vec(),
                operand_index: alias.operand,
                operand_shape_index: alias.operand_index.to_vec(),
            };
            to.output_operand_aliasing = entries.iter().map(entry).collect();
        }
        ("domain", _) => domain(value, to)?,
        ("literal", _) if inst.opcode == Opcode::CustomCall => {
            let text = value.text()?;
            let (shape, value) = text::shaped_literal(text)?;
            to.literal = literal::write(&shape, &value)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The message's entry is the operand's side, the text's entry the user's.
fn domain(value: Value<'_>, to: &mut pb::HloInstruction) -> Fit<()> {
    value.with(|cursor| {
        cursor.list(("{", "}"), |cursor| {
            let key = cursor.word()?;
            cursor.expect("=")?;
            match key {
                "kind" if cursor.string()? == "sharding" => {}
                "exit" => to.domain_entry_sharding = Some(sharding::write(cursor.dict()?)?),
                "entry" => to.domain_exit_sharding = Some(sharding::write(cursor.dict()?)?),
                _ => return Err(format!("`{key}` is not known")),
            }
            Ok(())
        })
    })?;
    Ok(())
}

fn custom_call(key: &str, value: Value<'_>, to: &mut pb::HloInstruction) -> Fit<bool> {
    match key {
        "custom_call_target" => to.custom_call_target = value.string()?,
        "operand_layout_constraints" => {
            to.constrain_layout = true;
            to.operand_shapes_with_layout =
                shapes(value.text()?)?.iter().map(|one| shape::write(one)).collect::<Fit<_>>()?;
        }
        "custom_call_has_side_effect" => to.custom_call_has_side_effect = value.flag()?,
        "padding_type" => to.padding_type = value.number_in(names::PADDING_TYPE)?,
        "schedule" => to.custom_call_schedule = value.number_in(names::CUSTOM_CALL_SCHEDULE)?,
        "api_version" => to.custom_call_api_version = value.number_in(names::API_VERSION)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn collective(inst: &Instruction, key: &str, value: Value<'_>, to: &mut pb::HloInstruction) -> Fit<bool> {
    match key {
        "channel_id" => to.channel_id = value.int()?,
        "constrain_layout" => to.constrain_layout = value.flag()?,
        "use_global_device_ids" => to.use_global_device_ids = value.flag()?,
        "replica_groups" => match sharding::groups(value.text()?)? {
            Groups::Listed(list) => {
                // XLA before jaxlib 0.9 reads the older field only, and takes none for all devices.
                to.replica_groups.clone_from(&list.replica_groups);
                to.collective_device_list = Some(list);
            }
            Groups::Iota(list) => to.iota_collective_device_list = Some(list),
            Groups::Mesh(list) => to.mesh_axes_replica_group_list = Some(list),
        },
        "source_target_pairs" => {
            to.source_target_pairs = value.with(|cursor| {
                cursor.list(("{", "}"), |cursor| match cursor.ints()?[..] {
                    [source, target] => Ok(pb_dims::SourceTarget { source, target }),
                    _ => Err("pairs expected".to_owned()),
                })
            })?;
        }
        "slice_sizes" if matches!(inst.opcode, Opcode::CollectivePermute | Opcode::CollectivePermuteStart) => {
            to.dynamic_slice_sizes = value.with(|cursor| cursor.list(("{", "}"), Cursor::ints))?.concat();
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// One shape.
fn one_shape(text: &str) -> Fit<crate::shape::ShapeRef> {
    let wrapped = format!("{{()->{text}}}");
    let program = text::program_layout(&wrapped);
    program.map(|(_, shape)| shape).ok_or_else(|| format!("`{text}` is no shape"))
}

/// `{shape, shape}`.
fn shapes(text: &str) -> Fit<Vec<crate::shape::ShapeRef>> {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or("braces expected")?;
    match &*one_shape(&format!("({inner})"))? {
        Shape::Tuple(elements) => Ok(elements.clone()),
        _ => Err("shapes expected".to_owned()),
    }
}
