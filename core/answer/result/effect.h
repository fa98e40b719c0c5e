// Determines what a strategy changed in a step: bytes offloaded and recomputed. If a part of a strategy changed
// nothing, the trial equals a simpler strategy. The trial is then not recommended, ranked or exported under its own
// name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/record/measurement/trial_result_row.h"

namespace memtune::result {

// The strategy that the trial amounts to. Offloading is dropped if nothing was offloaded, checkpoints if nothing was
// recomputed; `disk` changes to `host` if nothing was written to disk. Measurement::equal_to has priority. Returns the
// trial's own name if every part had an effect, nothing was counted, or no simpler name exists.
std::string effective_strategy(const TrialMeasurement& measurement);

// Whether all or part of the strategy had no effect.
bool has_ineffective_part(const TrialMeasurement& measurement);
// Whether the trial worked, counted its changes and changed nothing. False for `none` itself.
bool had_no_effect(const TrialMeasurement& measurement);

// "equal to checkpoint:cheap: nothing was offloaded", followed by Measurement::no_effect. For a plan without a strategy
// name only "nothing was offloaded". "" if every part had an effect.
std::string effect_text(const TrialMeasurement& measurement);

// For external commands, which report no counters. A variant that should offload or recompute may equal one that should
// not. It does if peaks and copied bytes are equal and losses are bit-identical. `likes`: memtune's strategy with the
// settings of each row; "": unknown. Peaks must come from an allocator.
void compare_effects(std::span<TrialResultRow> rows, std::span<const std::string> likes);

// The rows to choose from: usable, and the same training as the baseline (see compare_losses). Rows with equal
// effective strategy, batch and sequence length give one result, preferably the row with that strategy's own name.
std::vector<const TrialResultRow*> choices(std::span<const TrialResultRow* const> rows);
std::vector<const TrialResultRow*> choices(std::span<const TrialResultRow> rows);

// Bytes offloaded and recomputed per step.
int64_t changed_bytes(const TrialMeasurement& measurement);

// Compares changed_bytes() if both trials counted them. Otherwise the row with the higher peak is assumed to change
// less. The base changes least. External commands report no counters; there the lower peak is preferred.
bool changes_less(const TrialResultRow& a, const TrialResultRow& b);

}  // namespace memtune::result
