//! Which devices take part in a collective together: the forms of `replica_groups` as lists of devices.
//!
//! Source: `MeshAxesReplicaGroupList`, `IotaReplicaGroupList` (xla/hlo/ir/replica_group.cc, collective_device_list.cc).

use std::collections::BTreeMap;

use crate::proto::message::common as pb;
use crate::proto::sharding::{Groups, groups};

/// Most devices that are listed one by one: the largest TPU pods have 9,216 chips of two cores.
const MOST_DEVICES: i64 = 1 << 20;

/// The groups of a text of `replica_groups`, as numbers of devices in their order; `None` for a text that is no such list.
///
/// Groups are in the order of their first place in the mesh, and devices of a group in the order of the axes named.
pub fn listed(text: &str) -> Option<Vec<Vec<i64>>> {
    match groups(text).ok()? {
        Groups::Listed(list) => Some(list.replica_groups.into_iter().map(|group| group.replica_ids).collect()),
        Groups::Iota(list) => {
            let devices = transposed(&list.iota_reshape_dims, &list.iota_transpose_perm)?;
            let size = usize::try_from(list.num_devices_per_group).ok().filter(|&size| size > 0)?;
            let is_whole =
                list.num_replica_groups.checked_mul(list.num_devices_per_group) == Some(devices.len() as i64);
            is_whole.then(|| devices.chunks(size).map(<[i64]>::to_vec).collect())
        }
        Groups::Mesh(list) => along(list.mesh.as_ref()?, &list.axes),
    }
}

/// The text of `replica_groups` that lists devices one by one: `{{0,1},{2,3}}`.
pub fn text(groups: &[Vec<i64>]) -> String {
    let one = |group: &Vec<i64>| {
        let ids: Vec<String> = group.iter().map(i64::to_string).collect();
        format!("{{{}}}", ids.join(","))
    };
    let each: Vec<String> = groups.iter().map(one).collect();
    format!("{{{}}}", each.join(","))
}

/// A part of an axis: digits of a place in the mesh.
struct Digit {
    /// By how much the place grows with the digit.
    stride: i64,
    size: i64,
}

/// Groups of the devices of a mesh that differ only along `axes`.
fn along(mesh: &pb::Mesh, axes: &[pb::AxisRef]) -> Option<Vec<Vec<i64>>> {
    let devices = devices(mesh)?;
    let digits: Vec<Digit> = axes.iter().map(|axis| digit(mesh, axis)).collect::<Option<_>>()?;
    let mut found: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for (place, &device) in (0..).zip(&devices) {
        let values = digits.iter().map(|digit| (place / digit.stride % digit.size, digit));
        let (rest, number) = values.fold((place, 0), |(rest, number), (value, digit)| {
            (rest - value * digit.stride, number * digit.size + value)
        });
        found.entry(rest).or_default().push((number, device));
    }
    let sorted = |mut group: Vec<(i64, i64)>| {
        group.sort_unstable();
        group.into_iter().map(|(_, device)| device).collect()
    };
    let size = digits.iter().map(|digit| digit.size).product::<i64>();
    let is_whole = found.values().all(|group| group.len() as i64 == size);
    is_whole.then(|| found.into_values().map(sorted).collect())
}

fn digit(mesh: &pb::Mesh, axis: &pb::AxisRef) -> Option<Digit> {
    let index = usize::try_from(axis.mesh_axis_index).ok()?;
    let whole = mesh.axes.get(index)?.size;
    let behind: i64 = mesh.axes[index + 1..].iter().map(|axis| axis.size).product();
    let (before, size) = axis.sub_axis_info.as_ref().map_or((1, whole), |sub| (sub.pre_size, sub.size));
    let parts = before.checked_mul(size).filter(|&parts| parts > 0 && whole % parts == 0)?;
    Some(Digit { stride: behind * (whole / parts), size })
}

/// The device at each place of a mesh, in row-major order; `None` if they are not as many as places.
fn devices(mesh: &pb::Mesh) -> Option<Vec<i64>> {
    let sizes: Vec<i64> = mesh.axes.iter().map(|axis| axis.size).collect();
    let places = transposed(&sizes, &[])?;
    let count = places.len();
    let devices = match &mesh.iota_transform {
        Some(iota) => {
            let order: Vec<i32> = iota.transpose_perm.iter().map(|&dim| dim as i32).collect();
            transposed(&iota.reshape_dims, &order)?
        }
        None if mesh.device_ids.is_empty() => places,
        None => mesh.device_ids.clone(),
    };
    (devices.len() == count).then_some(devices)
}

/// The numbers from 0 in an array of `sizes`, transposed by `order` (none: as they are), in row-major order.
fn transposed(sizes: &[i64], order: &[i32]) -> Option<Vec<i64>> {
    let checked = |product: i64, &size: &i64| product.checked_mul(size).filter(|&all| size > 0 && all <= MOST_DEVICES);
    let count = sizes.iter().try_fold(1, checked)?;
    let order: Vec<usize> = if order.is_empty() {
        (0..sizes.len()).collect()
    } else {
        order.iter().map(|&dim| usize::try_from(dim).ok().filter(|&dim| dim < sizes.len())).collect::<Option<_>>()?
    };
    let stride = |dim: usize| sizes[dim + 1..].iter().product::<i64>();
    let place = |index: i64| {
        let mut left = index;
        let digits = order.iter().rev().map(|&dim| {
            let value = left % sizes[dim];
            left /= sizes[dim];
            value * stride(dim)
        });
        digits.sum()
    };
    (order.len() == sizes.len()).then(|| (0..count).map(place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(groups: &str) -> String {
        text(&listed(groups).expect("a list of groups"))
    }

    #[test]
    fn every_form_is_a_list() {
        assert_eq!(of("{{0,2},{1,3}}"), "{{0,2},{1,3}}");
        assert_eq!(of("[2,4]<=[8]"), "{{0,1,2,3},{4,5,6,7}}");
        assert_eq!(of("[4,2]<=[2,4]T(1,0)"), "{{0,4},{1,5},{2,6},{3,7}}");
        assert_eq!(of("mesh['a'=2,'b'=4] {'a'}"), "{{0,4},{1,5},{2,6},{3,7}}");
        assert_eq!(of("mesh['a'=2,'b'=4] {'b'}"), "{{0,1,2,3},{4,5,6,7}}");
        assert_eq!(of("mesh['a'=2,'b'=2] {'b','a'}"), "{{0,2,1,3}}");
        assert_eq!(of("mesh['a'=8,'b'=1] {'a'}"), "{{0,1,2,3,4,5,6,7}}");
    }

    #[test]
    fn parts_of_axes_and_orders_of_devices_count() {
        assert_eq!(of("mesh['a'=4] {'a':(1)2}"), "{{0,2},{1,3}}");
        assert_eq!(of("mesh['a'=4] {'a':(2)2}"), "{{0,1},{2,3}}");
        assert_eq!(of("mesh['a'=4], device_ids=(3,2,1,0) {'a':(2)2}"), "{{3,2},{1,0}}");
        assert_eq!(of("mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'b'}"), "{{0,2},{1,3}}");
    }

    #[test]
    fn what_is_no_list_is_none() {
        assert_eq!(listed("mesh['a'=4] {'b'}"), None);
        assert_eq!(listed("[2,2"), None);
        assert_eq!(listed("[1,4]<=[4611686018427387904,4]"), None);
        assert_eq!(listed("mesh['a'=4] {'a':(3)2}"), None);
        assert_eq!(listed("[2,3]<=[8]"), None, "some devices are in no group");
        assert_eq!(listed("mesh['a'=2] {'a','a'}"), None, "an axis twice");
        assert_eq!(listed("mesh['a'=0,'b'=2], device_ids=([2]) {'b'}"), None);
        assert_eq!(listed("mesh['a'=9223372036854775807,'b'=4], device_ids=([4]) {'a'}"), None);
    }
}
