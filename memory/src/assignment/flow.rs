//! Everything the rules of buffer assignment read about a module that does not depend on the order of execution.

use hlo_ir::Module;

use super::classes::Classes;
use super::elementwise::{FusionPaths, KnownPaths};
use super::in_place::InPlace;
use super::order::Users;
use super::shape_positions::ShapePositions;
use super::values::Values;
use crate::parallel::join;

/// The analyses of one module; also of an unscheduled one.
#[derive(Clone, Debug)]
pub(crate) struct Flow<'m> {
    /// The module.
    pub(crate) module: &'m Module,
    /// Which computations own memory.
    pub(crate) classes: Classes,
    /// Who uses whom.
    pub(crate) users: Users,
    /// Numbers of all (instruction, tuple index).
    pub(crate) places: ShapePositions<'m>,
    /// The value at each place.
    pub(crate) values: Values,
    /// Operands that must be updated in place.
    pub(crate) in_place: InPlace,
    /// What fusions do elementwise.
    pub(crate) paths: FusionPaths,
}

impl<'m> Flow<'m> {
    /// Analyses `module`.
    pub(crate) fn of(module: &'m Module) -> Self {
        Self::beside(module, &KnownPaths::new(None))
    }

    /// Analyses a module that leaves out bodies of fusions that update nothing in place: those with `known` paths.
    pub(crate) fn beside(module: &'m Module, known: &KnownPaths) -> Self {
        let large = module.is_large();
        let owners = || {
            let classes = Classes::of(module);
            let users = Users::of(module, &classes);
            let places = ShapePositions::of(module, &classes, &users);
            (classes, users, places)
        };
        let (paths, (classes, users, places)) = join(large, || FusionPaths::of(module, known), owners);
        let values = || Values::of(module, &classes, &users, &places);
        let (in_place, values) = join(large, || InPlace::of(module, &places, known), values);
        Self { module, classes, users, places, values, in_place, paths }
    }
}
