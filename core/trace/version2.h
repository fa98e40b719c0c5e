// Reading traces of version 2, which said what things are by their names alone. This is the one place that knows those
// names; whatever else reads a trace finds the types of version 3.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/trace/event.h"

namespace memtune::trace {

// Tracks, values and owners. nlohmann::json::exception when something is missing.
void read_header_2(const nlohmann::json& header, Trace& trace);

// What events are; after all records have been read.
void derive_types(Trace& trace);

}  // namespace memtune::trace
