//! A map with CLOCK (second-chance) eviction. Each step examines a bounded number of entries.
use foldhash::HashMap;
use std::cell::Cell;
use std::hash::Hash;
use std::sync::Arc;

/// Values by key. The hand visits all keys in turn; an entry used since the last visit stays.
#[derive(Debug)]
pub struct ClockCache<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// All keys; each entry stores its index.
    ring: Vec<K>,
    hand: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: Arc<V>,
    slot: u32,
    used: Cell<bool>,
}

/// Limits of an eviction step.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Entries examined.
    pub looks: usize,
    /// Entries removed.
    pub removals: usize,
}

impl<K, V> Default for ClockCache<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::default(), ring: Vec::new(), hand: 0 }
    }
}

impl<K: Copy + Eq + Hash, V> ClockCache<K, V> {
    /// Looks up a value and protects it until the hand's next visit.
    pub fn get(&self, key: K) -> Option<&Arc<V>> {
        let entry = self.entries.get(&key)?;
        entry.used.set(true);
        Some(&entry.value)
    }

    pub fn contains(&self, key: K) -> bool {
        self.entries.contains_key(&key)
    }

    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Inserts or replaces a value; returns the previous one.
    pub fn insert(&mut self, key: K, value: Arc<V>) -> Option<Arc<V>> {
        if let Some(entry) = self.entries.get_mut(&key) {
            return Some(std::mem::replace(&mut entry.value, value));
        }
        let slot = self.ring.len() as u32;
        self.ring.push(key);
        self.entries.insert(key, Entry { value, slot, used: Cell::new(false) });
        None
    }

    pub fn remove(&mut self, key: K) -> Option<Arc<V>> {
        let entry = self.entries.remove(&key)?;
        let slot = entry.slot as usize;
        self.ring.swap_remove(slot);
        if let Some(moved) = self.ring.get(slot).and_then(|k| self.entries.get_mut(k)) {
            moved.slot = entry.slot;
        }
        Some(entry.value)
    }

    /// Advances the hand. An entry not used since the last visit for which `may_go` is true is removed and passed to
    /// `gone`. Returns the number of removals.
    pub fn evict(
        &mut self,
        step: Step,
        mut may_go: impl FnMut(&Arc<V>) -> bool,
        mut gone: impl FnMut(Arc<V>),
    ) -> usize {
        let mut removed = 0;
        for _ in 0..step.looks.min(self.ring.len().saturating_mul(2)) {
            if removed == step.removals {
                break;
            }
            if self.hand >= self.ring.len() {
                self.hand = 0;
            }
            let Some(&key) = self.ring.get(self.hand) else { break };
            let stays = self.entries.get(&key).is_none_or(|e| !may_go(&e.value) || e.used.replace(false));
            if !stays && let Some(value) = self.remove(key) {
                removed += 1;
                gone(value);
            }
            // The last entry took the place of a removed one; it is visited in the next revolution.
            self.hand += 1;
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Step = Step { looks: usize::MAX, removals: usize::MAX };

    fn filled(n: u32) -> ClockCache<u32, u32> {
        let mut cache = ClockCache::default();
        (0..n).for_each(|i| assert!(cache.insert(i, Arc::new(i)).is_none()));
        cache
    }

    fn verify(cache: &ClockCache<u32, u32>) {
        assert_eq!(cache.ring.len(), cache.entries.len());
        for (slot, key) in cache.ring.iter().enumerate() {
            assert_eq!(cache.entries[key].slot as usize, slot);
        }
    }

    #[test]
    fn used_entries_get_a_second_chance() {
        let mut cache = filled(8);
        cache.get(0).unwrap();
        cache.get(5).unwrap();
        let mut gone = Vec::new();
        let step = Step { looks: 8, removals: 3 };
        cache.evict(step, |_| true, |v| gone.push(*v));
        // 7 and 6 took the places of 1 and 2 and are visited in the next revolution.
        assert_eq!(gone, [1, 2, 3]);
        verify(&cache);
        while cache.evict(ALL, |_| true, |_| {}) > 0 {}
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn a_step_is_bounded_and_keeps_entries_in_use() {
        let mut cache = filled(1000);
        let mut looks = 0;
        let step = Step { looks: 64, removals: 10 };
        let removed = cache.evict(
            step,
            |v| {
                looks += 1;
                **v >= 900
            },
            |_| {},
        );
        assert_eq!((removed, looks), (0, 64));
        while cache.evict(ALL, |v| **v >= 900, |_| {}) > 0 {}
        assert_eq!(cache.len(), 900);
        verify(&cache);
    }

    #[test]
    fn any_order_of_operations_keeps_ring_and_map_consistent() {
        let (mut cache, mut x) = (filled(0), 7_u64);
        for _ in 0..20_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = (x >> 33) as u32 % 200;
            match (x >> 60) % 5 {
                0 | 1 => drop(cache.insert(key, Arc::new(key))),
                2 => drop(cache.remove(key)),
                3 => assert!(cache.get(key).is_none_or(|v| **v == key)),
                _ => drop(cache.evict(Step { looks: 8, removals: 3 }, |_| true, |_| {})),
            }
            verify(&cache);
        }
    }
}
