// What a trial did to a step: how many bytes it offloaded and recomputed. A strategy of which a part did neither is
// another strategy under a longer name, whatever its plan says: that part is not recommended, ranked or exported.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/result/row.h"

namespace memtune::result {

// The strategy that the trial amounts to: without offloads where nothing was offloaded, without checkpoints where
// nothing was recomputed, with the host for a disk that nothing reached; Measurement::equal_to where that is set. The
// trial's own name where every part did something, where nothing was counted, and where no name is left to give.
std::string effective_strategy(const Measurement& measurement);

// A part of it, or all, had no effect.
bool did_less(const Measurement& measurement);
// Worked, counted what it did, and did nothing. Never true of `none` itself.
bool did_nothing(const Measurement& measurement);

// "equal to checkpoint:cheap: nothing was offloaded", with the reason behind it where no_effect has one; of a plan
// without a strategy's name "nothing was offloaded". "" where every part had an effect.
std::string effect_text(const Measurement& measurement);

// Of commands, which count nothing: a variant whose settings offload or recompute, but whose peak, copies and losses
// are to the byte and the bit those of one whose settings do not, is equal to that. `likes`: for each row memtune's own
// strategy of the same settings; "": none is known. Peaks have to be of an allocator.
void compare_effects(std::span<Row> rows, std::span<const std::string> likes);

// The rows to choose from: usable, the same training as the baseline (see compare_losses), and of those that amount to
// the same at the same batch and sequence one, the strategy itself where it was measured.
std::vector<const Row*> choices(std::span<const Row* const> rows);
std::vector<const Row*> choices(std::span<const Row> rows);

// Bytes a step that were moved or made again.
int64_t changed_bytes(const Measurement& measurement);

// By changed_bytes where both were counted; else whoever holds more memory changes less. The base changes least.
// Of commands, whose changes nobody counts, the one that holds less memory is taken for it.
bool changes_less(const Row& a, const Row& b);

}  // namespace memtune::result
