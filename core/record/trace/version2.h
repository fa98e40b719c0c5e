// Reads traces of version 2, which identifies everything by name. Only this file knows those names; other code sees the
// types of version 3.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/record/trace/trace_event.h"

namespace memtune::trace {

// Reads tracks, values and owners. Throws nlohmann::json::exception if a field is missing.
void read_header_2(const nlohmann::json& header, Trace& trace);

// Sets the types of events. Call it after all records were read.
void derive_types(Trace& trace);

}  // namespace memtune::trace
