//! Instructions of a message as the lines XLA prints for them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::float::general;
use super::message::{dims as pb_dims, module as pb, shape as pb_shape};
use super::scan::{Fit, braces, dict_or_quote, grouped, joined, quote};
use super::{convolution, literal, metadata, names, shape, sharding};

/// Names of computations by id.
pub(super) struct Names<'m> {
    computations: BTreeMap<i64, &'m str>,
}

impl<'m> Names<'m> {
    pub(super) fn of(module: &'m pb::HloModule) -> Fit<Self> {
        let mut computations = BTreeMap::new();
        for computation in &module.computations {
            let name = checked_name(&computation.name)?;
            if computations.insert(computation.id, name).is_some() {
                return Err(format!("two computations have the id {}", computation.id));
            }
        }
        Ok(Self { computations })
    }
    fn called(&self, inst: &pb::HloInstruction, index: usize) -> Fit<&'m str> {
        let id = inst.called_computation_ids.get(index).ok_or("a called computation is missing")?;
        self.computations.get(id).copied().ok_or_else(|| format!("computation {id} does not exist"))
    }
    fn all(&self, inst: &pb::HloInstruction) -> Fit<String> {
        let names =
            (0..inst.called_computation_ids.len()).map(|index| self.called(inst, index).map(|name| format!("%{name}")));
        Ok(grouped(names.collect::<Fit<Vec<_>>>()?, ", "))
    }
}

/// A name that text can hold.
pub(super) fn checked_name(name: &str) -> Fit<&str> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if begins && name.bytes().all(legal) { Ok(name) } else { Err(format!("`{name}` is no legal name")) }
}

type Instructions<'m> = BTreeMap<i64, &'m pb::HloInstruction>;

/// Writes `name = shape opcode(operands), attributes`.
pub(super) fn read(
    inst: &pb::HloInstruction,
    by_id: &Instructions<'_>,
    names: &Names<'_>,
    out: &mut String,
) -> Fit<()> {
    let mut line = Line { inst, by_id, names, out };
    line.head()?;
    line.dimension_numbers()?;
    line.options()?;
    line.custom_call()?;
    line.collective()?;
    line.called()?;
    line.common()
}

struct Line<'a, 'm> {
    inst: &'a pb::HloInstruction,
    by_id: &'a Instructions<'m>,
    names: &'a Names<'m>,
    out: &'a mut String,
}

impl Line<'_, '_> {
    fn put(&mut self, key: &str, value: impl std::fmt::Display) {
        write!(self.out, ", {key}={value}").expect("writing to a string cannot fail");
    }
    fn put_if(&mut self, wanted: bool, key: &str, value: impl std::fmt::Display) {
        if wanted {
            self.put(key, value);
        }
    }
    fn put_string(&mut self, key: &str, bytes: &[u8]) {
        self.put(key, "");
        quote(self.out, bytes);
    }
    fn is(&self, opcodes: &[&str]) -> bool {
        opcodes.contains(&self.inst.opcode.as_str())
    }

    fn name_of(&self, id: i64) -> Fit<&str> {
        let inst = self.by_id.get(&(id & 0xffff_ffff)).ok_or_else(|| format!("instruction {id} does not exist"))?;
        checked_name(&inst.name)
    }

    fn head(&mut self) -> Fit<()> {
        let inst = self.inst;
        let shape = shape::required(inst.shape.as_ref())?;
        if crate::Opcode::from_name(&inst.opcode).is_none() {
            return Err(format!("opcode `{}` is not known", inst.opcode));
        }
        write!(self.out, "{} = {shape} {}(", checked_name(&inst.name)?, inst.opcode).expect(INFALLIBLE);
        match inst.opcode.as_str() {
            "parameter" => self.out.push_str(&inst.parameter_number.to_string()),
            "constant" => match &inst.literal {
                Some(value) => self.out.push_str(&literal::read(value)?),
                None => self.out.push_str("{...}"),
            },
            _ => {
                for (index, &id) in inst.operand_ids.iter().enumerate() {
                    self.out.push_str(if index == 0 { "" } else { ", " });
                    if index > 0 && index % 5 == 0 {
                        write!(self.out, "/*index={index}*/").expect(INFALLIBLE);
                    }
                    let name = format!("%{}", self.name_of(id)?);
                    self.out.push_str(&name);
                }
            }
        }
        self.out.push(')');
        Ok(())
    }

    fn dimension_numbers(&mut self) -> Fit<()> {
        let inst = self.inst;
        let late = ["all-gather", "all-gather-start", "reduce-scatter", "all-to-all"];
        if let (Some(&dimension), true) = (inst.dimensions.first(), self.is(&["iota"])) {
            self.put("iota_dimension", dimension);
        } else if let (Some(&dimension), true) = (inst.dimensions.first(), self.is(&["reshape"])) {
            self.put("inferred_dimension", dimension);
        } else if !self.is(&late) && !self.is(&["reshape", "iota"]) {
            let always = self.is(&["broadcast", "reverse", "transpose", "concatenate", "reduce", "sort"]);
            self.put_if(always || !inst.dimensions.is_empty(), "dimensions", braces(&inst.dimensions));
        }
        if self.is(&["slice"]) {
            self.put("slice", slice(&inst.slice_dimensions));
        }
        if self.is(&["dynamic-slice"]) {
            self.put("dynamic_slice_sizes", braces(&inst.dynamic_slice_sizes));
        }
        if let Some(padding) = &inst.padding_config {
            self.put_if(!padding.dimensions.is_empty(), "padding", pads(padding));
        }
        self.convolution()?;
        self.gather_scatter();
        self.dots()
    }

    fn convolution(&mut self) -> Fit<()> {
        let inst = self.inst;
        if let Some(window) = &inst.window {
            // A scalar reduce-window has a window, an empty one; a convolution without spatial dimensions is printed without.
            let wanted = !window.dimensions.is_empty() || !self.is(&["convolution"]);
            self.put_if(wanted, "window", convolution::window_text(window));
        }
        if let Some(dims) = &inst.convolution_dimension_numbers {
            self.put("dim_labels", convolution::labels_text(dims)?);
        }
        self.put_if(inst.feature_group_count > 1, "feature_group_count", inst.feature_group_count);
        self.put_if(inst.batch_group_count > 1, "batch_group_count", inst.batch_group_count);
        if inst.conv_kind != 0 {
            self.put("convolution_kind", names::spelling(names::CONVOLUTION_KIND, inst.conv_kind)?);
        }
        if inst.sparsity_config.as_ref().is_some_and(|config| *config != pb_dims::SparsityConfig::default()) {
            return Err("sparse convolutions (`sparsity_config`) are not understood".to_owned());
        }
        Ok(())
    }

    fn gather_scatter(&mut self) {
        let inst = self.inst;
        if let Some(dims) = &inst.gather_dimension_numbers {
            self.put("offset_dims", braces(&dims.offset_dims));
            self.put("collapsed_slice_dims", braces(&dims.collapsed_slice_dims));
            self.put("start_index_map", braces(&dims.start_index_map));
            for (key, list) in [
                ("operand_batching_dims", &dims.operand_batching_dims),
                ("start_indices_batching_dims", &dims.start_indices_batching_dims),
            ] {
                self.put_if(!list.is_empty(), key, braces(list));
            }
            self.put("index_vector_dim", dims.index_vector_dim);
            self.put("slice_sizes", braces(&inst.gather_slice_sizes));
        }
        if let Some(dims) = &inst.scatter_dimension_numbers {
            self.put("update_window_dims", braces(&dims.update_window_dims));
            self.put("inserted_window_dims", braces(&dims.inserted_window_dims));
            self.put("scatter_dims_to_operand_dims", braces(&dims.scatter_dims_to_operand_dims));
            for (key, list) in [
                ("input_batching_dims", &dims.input_batching_dims),
                ("scatter_indices_batching_dims", &dims.scatter_indices_batching_dims),
            ] {
                self.put_if(!list.is_empty(), key, braces(list));
            }
            self.put("index_vector_dim", dims.index_vector_dim);
        }
        self.put_if(inst.indices_are_sorted, "indices_are_sorted", true);
        self.put_if(inst.unique_indices, "unique_indices", true);
    }

    fn dots(&mut self) -> Fit<()> {
        let inst = self.inst;
        if let Some(dims) = &inst.dot_dimension_numbers {
            self.dot_dims(dims);
        }
        if let Some(ragged) = &inst.ragged_dot_dimension_numbers {
            self.dot_dims(&ragged.dot_dimension_numbers.clone().unwrap_or_default());
            self.put("lhs_ragged_dims", braces(&ragged.lhs_ragged_dimensions));
            self.put("rhs_group_dims", braces(&ragged.rhs_group_dimensions));
        }
        let Some(precision) = &inst.precision_config else { return Ok(()) };
        if precision.operand_precision.iter().any(|&precision| precision != 0) {
            let words = precision.operand_precision.iter().map(|&number| names::spelling(names::PRECISION, number));
            self.put("operand_precision", format!("{{{}}}", words.collect::<Fit<Vec<_>>>()?.join(",")));
        }
        if precision.algorithm != 0 {
            self.put("algorithm", names::spelling(names::DOT_ALGORITHM, precision.algorithm)?);
        }
        Ok(())
    }

    fn dot_dims(&mut self, dims: &pb_dims::DotDimensionNumbers) {
        self.put_if(!dims.lhs_batch_dimensions.is_empty(), "lhs_batch_dims", braces(&dims.lhs_batch_dimensions));
        self.put("lhs_contracting_dims", braces(&dims.lhs_contracting_dimensions));
        self.put_if(!dims.rhs_batch_dimensions.is_empty(), "rhs_batch_dims", braces(&dims.rhs_batch_dimensions));
        self.put("rhs_contracting_dims", braces(&dims.rhs_contracting_dimensions));
    }

    /// Options of single opcodes.
    fn options(&mut self) -> Fit<()> {
        let inst = self.inst;
        match inst.opcode.as_str() {
            "compare" => self.compare()?,
            "sort" => self.put_if(inst.is_stable, "is_stable", true),
            "fft" => {
                self.put("fft_type", names::spelling(names::FFT_TYPE, inst.fft_type)?);
                self.put("fft_length", braces(&inst.fft_length));
            }
            "cholesky" => {
                self.put_if(inst.cholesky_options.as_ref().is_some_and(|options| options.lower), "lower", true);
            }
            "triangular-solve" => {
                let options = inst.triangular_solve_options.clone().unwrap_or_default();
                self.put_if(options.left_side, "left_side", true);
                self.put_if(options.lower, "lower", true);
                self.put_if(options.unit_diagonal, "unit_diagonal", true);
                self.put("transpose_a", names::spelling(names::TRANSPOSE, options.transpose_a)?);
            }
            "batch-norm-training" | "batch-norm-inference" | "batch-norm-grad" => {
                self.put("epsilon", general(f64::from(inst.epsilon), 6));
                self.put("feature_index", inst.feature_index);
            }
            "rng" => self.put("distribution", names::spelling(names::DISTRIBUTION, inst.distribution)?),
            "rng-bit-generator" => self.put("algorithm", names::spelling(names::RNG_ALGORITHM, inst.rng_algorithm)?),
            "rng-get-and-update-state" => self.put("delta", inst.delta),
            "reduce-precision" => {
                self.put("exponent_bits", inst.exponent_bits);
                self.put("mantissa_bits", inst.mantissa_bits);
            }
            "get-tuple-element" => self.put("index", inst.tuple_index),
            "topk" => {
                self.put("k", inst.k);
                self.put("largest", inst.largest);
                self.put_if(inst.is_stable, "is_stable", true);
            }
            "scan" => {
                self.put("num_carries", inst.num_carries);
                self.put_if(inst.is_reverse, "is_reverse", true);
                self.put_if(inst.is_associative != 0, "is_associative", inst.is_associative == 1);
            }
            "fusion" => self.put("kind", names_word(&inst.fusion_kind)?),
            "infeed" if !inst.infeed_config.is_empty() => self.put_string("infeed_config", &inst.infeed_config),
            "outfeed" => {
                self.put("outfeed_shape", shape::required(inst.outfeed_shape.as_ref())?);
                if !inst.outfeed_config.is_empty() {
                    self.put_string("outfeed_config", &inst.outfeed_config);
                }
            }
            "parameter" => {
                if let Some(replication) = &inst.parameter_replication {
                    self.put(
                        "parameter_replication",
                        format!("{{{}}}", joined(&replication.replicated_at_leaf_buffers, ",")),
                    );
                }
            }
            "async-start" if !inst.async_execution_thread.is_empty() => {
                self.put_string("async_execution_thread", inst.async_execution_thread.as_bytes());
            }
            "copy-start" => {
                let index = inst.cross_program_prefetch_index.or(inst.is_cross_program_prefetch.then_some(0));
                if let Some(index) = index {
                    self.put("cross_program_prefetch_index", index);
                }
            }
            "domain" => self.domain()?,
            _ => {}
        }
        Ok(())
    }

    fn compare(&mut self) -> Fit<()> {
        let inst = self.inst;
        self.put("direction", names_word(&inst.comparison_direction)?);
        let operand = inst.operand_ids.first().and_then(|id| self.by_id.get(&(id & 0xffff_ffff)));
        let number = operand.and_then(|inst| inst.shape.as_ref()).map_or(0, |shape| shape.element_type);
        let usual = names::comparison_of(shape::element_type(number).ok());
        let kind = inst.comparison_type.as_str();
        if !kind.is_empty() && kind != usual {
            self.put("type", names_word(kind)?);
        }
        Ok(())
    }

    fn domain(&mut self) -> Fit<()> {
        let text = |side: &Option<super::message::common::OpSharding>| match side {
            Some(sharding) => sharding::read(sharding),
            None => Err("a side of the domain is missing".to_owned()),
        };
        let (exit, entry) = (text(&self.inst.domain_entry_sharding)?, text(&self.inst.domain_exit_sharding)?);
        self.put("domain", format!("{{kind=\"sharding\", entry={entry}, exit={exit}}}"));
        Ok(())
    }

    fn custom_call(&mut self) -> Fit<()> {
        let inst = self.inst;
        if !self.is(&["custom-call"]) {
            return Ok(());
        }
        if inst.padding_type != 0 {
            self.put("padding_type", names::spelling(names::PADDING_TYPE, inst.padding_type)?);
        }
        self.put_string("custom_call_target", inst.custom_call_target.as_bytes());
        if inst.constrain_layout {
            let shapes =
                inst.operand_shapes_with_layout.iter().map(|one| shape::read(one).map(|shape| shape.to_string()));
            self.put("operand_layout_constraints", grouped(shapes.collect::<Fit<Vec<_>>>()?, ", "));
        }
        self.put_if(inst.custom_call_has_side_effect, "custom_call_has_side_effect", true);
        if let Some(value) = &inst.literal {
            self.put("literal", literal::read_shaped(value)?);
        }
        self.aliasing();
        if inst.custom_call_schedule != 0 {
            self.put("schedule", names::spelling(names::CUSTOM_CALL_SCHEDULE, inst.custom_call_schedule)?);
        }
        if inst.custom_call_api_version > 1 {
            self.put("api_version", names::spelling(names::API_VERSION, inst.custom_call_api_version)?);
        }
        Ok(())
    }

    fn aliasing(&mut self) {
        let entries = self.inst.output_operand_aliasing.iter().map(|alias| {
            let (output, operand) = (braces(&alias.output_shape_index), braces(&alias.operand_shape_index));
            format!("{output}: ({}, {operand})", alias.operand_index)
        });
        self.put_if(entries.len() > 0, "output_to_operand_aliasing", grouped(entries, ", "));
    }

    fn collective(&mut self) -> Fit<()> {
        let inst = self.inst;
        if inst.all_reduce_id > 0 && inst.channel_id <= 0 {
            self.put("channel_id", inst.all_reduce_id);
        }
        self.put_if(inst.channel_id > 0, "channel_id", inst.channel_id);
        self.put_if(inst.is_host_transfer, "is_host_transfer", true);
        let listed = inst.collective_device_list.as_ref().map_or(&inst.replica_groups, |list| &list.replica_groups);
        let older = inst.collective_device_list.as_ref().and_then(|list| list.iota_replica_group_list.as_ref());
        if let Some(groups) = inst.iota_collective_device_list.as_ref().or(older) {
            self.put("replica_groups", sharding::iota_groups_text(groups));
        } else if let Some(groups) = &inst.mesh_axes_replica_group_list {
            self.put("replica_groups", sharding::mesh_groups_text(groups)?);
        } else if !listed.is_empty() || inst.collective_device_list.is_some() {
            self.put("replica_groups", sharding::listed_text(listed));
        }
        if self.is(&["collective-permute", "collective-permute-start"]) {
            let pairs = inst.source_target_pairs.iter().map(|pair| braces(&[pair.source, pair.target]));
            self.put("source_target_pairs", grouped(pairs, ","));
            if !inst.dynamic_slice_sizes.is_empty() {
                self.put("slice_sizes", grouped(self.sent_slices()?, ","));
            }
        }
        self.put_if(inst.constrain_layout && !self.is(&["custom-call"]), "constrain_layout", true);
        if self.is(&["all-gather", "all-gather-start", "reduce-scatter", "all-to-all"]) {
            self.put_if(!inst.dimensions.is_empty(), "dimensions", braces(&inst.dimensions));
        }
        self.put_if(inst.use_global_device_ids, "use_global_device_ids", true);
        Ok(())
    }

    /// The sizes of the slices that a collective-permute sends: the message has one list for all, each slice of the rank of what it is
    /// taken from. Source: `HloInstruction::CreateFromProto` (xla/hlo/ir/hlo_instruction.cc).
    fn sent_slices(&self) -> Fit<Vec<String>> {
        let shape = |index: usize| {
            let inst = self.inst.operand_ids.get(index).and_then(|id| self.by_id.get(&(id & 0xffff_ffff)));
            inst.and_then(|inst| inst.shape.as_ref()).ok_or("an operand of a collective-permute is missing")
        };
        let (from, places) = (shape(0)?, shape(2)?);
        let is_list = |places: Option<&pb_shape::Shape>| places.is_some_and(|place| !place.tuple_shapes.is_empty());
        let ranks: Vec<usize> = if from.tuple_shapes.is_empty() {
            let count = if is_list(places.tuple_shapes.first()) { places.tuple_shapes.len() } else { 1 };
            vec![from.dimensions.len(); count]
        } else {
            let first = places.tuple_shapes.first();
            let several = first.is_some_and(|first| is_list(first.tuple_shapes.first()));
            let count = |index: usize| places.tuple_shapes.get(index).map_or(0, |place| place.tuple_shapes.len());
            let each = |(index, part): (usize, &pb_shape::Shape)| {
                std::iter::repeat_n(part.dimensions.len(), if several { count(index) } else { 1 })
            };
            from.tuple_shapes.iter().enumerate().flat_map(each).collect()
        };
        // Where there are fewer or more sizes than that, XLA's own reading is not defined; they stay in order.
        let mut sizes = self.inst.dynamic_slice_sizes.as_slice();
        let mut slices = Vec::with_capacity(ranks.len());
        for rank in ranks.into_iter().chain([sizes.len()]) {
            let (slice, rest) = sizes.split_at(rank.min(sizes.len()));
            if !slice.is_empty() {
                slices.push(braces(slice));
            }
            sizes = rest;
        }
        Ok(slices)
    }

    fn called(&mut self) -> Fit<()> {
        let (inst, names) = (self.inst, self.names);
        let count = inst.called_computation_ids.len();
        let name = |index: usize| names.called(inst, index).map(|name| format!("%{name}"));
        match inst.opcode.as_str() {
            "while" => {
                self.put("condition", name(1)?);
                self.put("body", name(0)?);
            }
            "conditional" => {
                let first = inst.operand_ids.first().and_then(|id| self.by_id.get(&(id & 0xffff_ffff)));
                let by_flag = first.and_then(|inst| inst.shape.as_ref()).is_some_and(|shape| shape.element_type == 1);
                if by_flag && count == 2 {
                    self.put("true_computation", name(0)?);
                    self.put("false_computation", name(1)?);
                } else {
                    self.put("branch_computations", names.all(inst)?);
                }
            }
            "select-and-scatter" => {
                self.put("select", name(0)?);
                self.put("scatter", name(1)?);
            }
            "fusion" | "async-start" => {
                self.aliasing();
                self.put("calls", name(0)?);
            }
            // Older dumps repeat the computation of the start.
            "async-update" | "async-done" => {}
            "custom-call" => self.put_if(count > 0, "called_computations", names.all(inst)?),
            _ if count == 1 => self.put("to_apply", name(0)?),
            _ if count > 1 => self.put("called_computations", names.all(inst)?),
            _ => {}
        }
        self.put_if(inst.is_composite, "is_composite", true);
        Ok(())
    }

    /// What any instruction may have.
    fn common(&mut self) -> Fit<()> {
        let inst = self.inst;
        if let Some(sharding) = &inst.sharding {
            self.put("sharding", sharding::read(sharding)?);
        }
        if let Some(attributes) = inst.frontend_attributes.as_ref().filter(|attributes| !attributes.map.is_empty()) {
            self.put("frontend_attributes", metadata::frontend_text(attributes)?);
        }
        if !inst.control_predecessor_ids.is_empty() {
            let names = inst.control_predecessor_ids.iter().map(|&id| self.name_of(id).map(|name| format!("%{name}")));
            let names = grouped(names.collect::<Fit<Vec<_>>>()?, ", ");
            self.put("control-predecessors", names);
        }
        if let Some(viz) = inst.statistics_viz.as_ref().filter(|viz| !viz.statistics.is_empty()) {
            viz.statistics.iter().try_for_each(|statistic| checked_name(&statistic.stat_name).map(drop))?;
            self.put("statistics", metadata::statistics_text(viz));
        }
        if let Some(accuracy) = &inst.result_accuracy {
            let text = metadata::accuracy_text(accuracy)?;
            self.put_if(!text.is_empty(), "result_accuracy", text);
        }
        if let Some(value) = &inst.original_value {
            self.put("origin", super::origin::read(value)?);
        }
        if let Some(data) = &inst.metadata {
            let text = metadata::read(data)?;
            self.put_if(!text.is_empty(), "metadata", text);
        }
        if inst.backend_config_payload.is_some() {
            return Err("field `backend_config_payload` cannot be read".to_owned());
        }
        if !inst.backend_config.is_empty() {
            self.put("backend_config", "");
            dict_or_quote(self.out, &inst.backend_config);
        }
        Ok(())
    }
}

const INFALLIBLE: &str = "writing to a string cannot fail";

/// A value that text writes without quotes.
fn names_word(word: &str) -> Fit<&str> {
    checked_name(word).map_err(|_| format!("`{word}` is not a word"))
}

/// `{[0:4], [0:8]}`; all strides are written if one is not 1.
fn slice(dims: &[pb_dims::SliceDimensions]) -> String {
    let strides = dims.iter().any(|dim| dim.stride != 1);
    let dims = dims.iter().map(|dim| {
        let stride = if strides { format!(":{}", dim.stride) } else { String::new() };
        format!("[{}:{}{stride}]", dim.start, dim.limit)
    });
    grouped(dims, ", ")
}

/// `0_1x2_3`; the interior of all dimensions is written if one is not 0.
fn pads(padding: &pb_dims::PaddingConfig) -> String {
    let interior = padding.dimensions.iter().any(|dim| dim.interior_padding != 0);
    let dims = padding.dimensions.iter().map(|dim| {
        let interior = if interior { format!("_{}", dim.interior_padding) } else { String::new() };
        format!("{}_{}{interior}", dim.edge_padding_low, dim.edge_padding_high)
    });
    joined(dims, "x")
}
