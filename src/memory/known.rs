// SPDX-License-Identifier: GPL-2.0-only
//! What is remembered of a process from look to look.

use super::density::Density;
use super::kernel_scans::KernelScans;
use super::maps::{Mapping, SharedId};
use super::policy::Reading;
use super::touch::Mark;
use crate::policy::locality::areas::{self, Area};

/// A map that seems unchanged is read again after so many looks.
const MAP_LOOKS: u32 = 8;
/// Areas that are remembered; of more only the largest are looked at.
const MOST_AREAS: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub struct Known {
    /// In order of their addresses; `areas` is parallel.
    mappings: Vec<Mapping>,
    areas: Vec<Area>,
    pub density: Density,
    pub marks: Vec<Mark>,
    pub reading: Option<Reading>,
    pub looked_ms: u64,
    pub scans: Option<KernelScans>,
    virtual_kib: u64,
    /// Looks since the map was read.
    looks: u32,
}

/// How many addresses an area gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allotted {
    /// Subscript of the area.
    pub at: usize,
    pub addresses: u32,
}

impl Known {
    /// Whether its map has to be read again: another size of the address space, or some looks are over. For
    /// thousands of areas the map is most of what a look costs.
    pub fn map_is_due(&mut self, virtual_kib: u64) -> bool {
        self.looks += 1;
        let due = self.mappings.is_empty() || virtual_kib != self.virtual_kib;
        due || self.looks > MAP_LOOKS
    }

    /// Its areas as they are now, in order of their addresses. What is known of those that are still there stays.
    pub fn set_map(&mut self, mut mappings: Vec<Mapping>, virtual_kib: u64, page_size: u64) {
        if mappings.len() > MOST_AREAS {
            mappings.sort_unstable_by_key(|area| std::cmp::Reverse(area.end - area.start));
            mappings.truncate(MOST_AREAS);
            mappings.sort_unstable_by_key(|area| area.start);
        }
        let area = |mapping: &Mapping| {
            let before = self.find(mapping.start).map(|at| self.areas[at]);
            Area {
                start: mapping.start,
                pages: (mapping.end - mapping.start) / page_size,
                touched_ms: before.and_then(|area| area.touched_ms),
                sampled_ms: before.and_then(|area| area.sampled_ms),
            }
        };
        self.areas = mappings.iter().map(area).collect();
        self.mappings = mappings;
        self.virtual_kib = virtual_kib;
        self.looks = 0;
    }

    pub fn area(&self, at: usize) -> &Area {
        &self.areas[at]
    }

    pub fn shared(&self, at: usize) -> Option<SharedId> {
        self.mappings[at].shared
    }

    /// The area that begins there.
    pub fn find(&self, start: u64) -> Option<usize> {
        self.areas
            .binary_search_by_key(&start, |area| area.start)
            .ok()
    }

    /// The area that the address is in.
    pub fn holding(&self, address: u64) -> Option<usize> {
        let after = self.mappings.partition_point(|area| area.start <= address);
        let at = after.checked_sub(1)?;
        (address < self.mappings[at].end).then_some(at)
    }

    /// Somebody has touched the area that begins there.
    pub fn touched(&mut self, start: u64, at_ms: u64) {
        if let Some(at) = self.find(start) {
            self.areas[at].touched_ms = Some(at_ms);
        }
    }

    /// Somebody has touched that address.
    pub fn holds_touched(&mut self, address: u64, at_ms: u64) {
        if let Some(at) = self.holding(address) {
            self.areas[at].touched_ms = Some(at_ms);
        }
    }

    /// Whom to give so many addresses, in the order of the policy; they are taken as looked at.
    pub fn allot(&mut self, addresses: u32, at_ms: u64) -> Vec<Allotted> {
        let expected = |area: &Area| Area {
            pages: self.density.expected(area.pages),
            ..*area
        };
        let mut ordered: Vec<Area> = self.areas.iter().map(expected).collect();
        areas::order(&mut ordered, at_ms);
        let allotted = areas::allot(&ordered, addresses, at_ms);
        let given = ordered.iter().zip(allotted);
        let mut given: Vec<Allotted> = given
            .filter(|(_, addresses)| *addresses > 0)
            .filter_map(|(area, addresses)| {
                let at = self.find(area.start)?;
                Some(Allotted { at, addresses })
            })
            .collect();
        given.sort_unstable_by_key(|given| given.at);
        for given in &given {
            self.areas[given.at].sampled_ms = Some(at_ms);
        }
        given
    }

    /// Its private areas, hot ones first.
    pub fn private(&self, at_ms: u64) -> Vec<Area> {
        let both = self.areas.iter().zip(&self.mappings);
        let private = both.filter(|(_, mapping)| mapping.shared.is_none());
        let mut areas: Vec<Area> = private.map(|(area, _)| *area).collect();
        areas::order(&mut areas, at_ms);
        areas
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, pages: u64) -> Mapping {
        Mapping {
            start,
            end: start + pages * 4096,
            shared: None,
        }
    }

    #[test]
    fn a_map_is_read_again_when_it_may_be_another() {
        let mut known = Known::default();
        assert!(known.map_is_due(7));
        known.set_map(vec![mapping(0x1000, 1)], 7, 4096);
        assert!((0..MAP_LOOKS).all(|_| !known.map_is_due(7)));
        assert!(known.map_is_due(7));
        known.set_map(vec![mapping(0x1000, 1)], 7, 4096);
        assert!(known.map_is_due(8));
    }

    #[test]
    fn what_is_known_of_areas_stays() {
        let mut known = Known::default();
        known.set_map(vec![mapping(0x1000, 1), mapping(0x8000, 9)], 1, 4096);
        known.touched(0x8000, 5);
        known.touched(0x9000, 6);
        assert_eq!(known.allot(10, 7).len(), 2);
        known.set_map(vec![mapping(0x8000, 10), mapping(0x1_8000, 9)], 1, 4096);
        let of = |at| {
            (
                known.area(at).pages,
                known.area(at).touched_ms,
                known.area(at).sampled_ms,
            )
        };
        assert_eq!(of(0), (10, Some(5), Some(7)));
        assert_eq!(of(1), (9, None, None));
    }

    #[test]
    fn an_address_is_in_one_area_or_none() {
        let mut known = Known::default();
        known.set_map(vec![mapping(0x1000, 1), mapping(0x8000, 2)], 1, 4096);
        let expected = [
            (0xfff, None),
            (0x1000, Some(0)),
            (0x1fff, Some(0)),
            (0x2000, None),
            (0x7fff, None),
            (0x9fff, Some(1)),
            (0xa000, None),
        ];
        for (address, at) in expected {
            assert_eq!(known.holding(address), at, "{address:x}");
        }
        known.holds_touched(0x2000, 4);
        known.holds_touched(0x9000, 5);
        let touched = [0, 1].map(|at| known.area(at).touched_ms);
        assert_eq!(touched, [None, Some(5)]);
    }

    #[test]
    fn of_too_many_areas_the_largest_are_kept() {
        let mut known = Known::default();
        let count = MOST_AREAS as u64 + 10;
        let area = |at| mapping(at << 20, if at < 10 { 1 } else { 2 });
        known.set_map((0..count).map(area).collect(), 1, 4096);
        assert_eq!(known.areas.len(), MOST_AREAS);
        assert_eq!(known.find(9 << 20), None);
        assert_eq!(known.find(10 << 20), Some(0));
    }

    /// A thousand stacks, of which hardly anything was touched, beside a heap.
    #[test]
    fn stacks_do_not_hide_the_heap() {
        let mut known = Known::default();
        let mut mappings = vec![mapping(0x1000_0000, 50_000)];
        mappings.extend((0..1000).map(|at| mapping(0x7f00_0000_0000 + (at << 24), 2048)));
        known.set_map(mappings, 1, 4096);
        let heap = |known: &mut Known, at_ms| {
            let allotted = known.allot(400, at_ms);
            allotted
                .iter()
                .find(|given| given.at == 0)
                .map_or(0, |given| given.addresses)
        };
        assert!(heap(&mut known, 1) < 20);
        (0..400).for_each(|_| known.density.add(2048, false));
        assert!(heap(&mut known, 2) > 200);
    }
}
