// The records of a step's memory: figures, call paths and the curve of the trace, and which no shim can have written.
#include <doctest/doctest.h>

#include "core/base/file.h"
#include "core/measure/attach/command.h"
#include "core/record/trace/file.h"
#include "tests/attach/recorded.h"

namespace memtune::memory_records_test {

using namespace memtune;
using namespace memtune::attach;
using memtune::result::StepMemoryCategory;
using memtune::result::TrialOutcome;
using memtune::trace::MemoryOwnerKind;

namespace {

std::string with(std::string text, const std::string& part, const std::string& other) {
  const size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), other);
}

constexpr const char* kMemory =
    R"({"record": "memory", "step": 6, "device": 0, "measured": 900, "saved": false, "complete": true, "stacks": true, "phase": "backward", "peak_ns": 40, "owners": [{"kind": "parameters", "before": 400, "peak": 400, "end": 400}, {"kind": "activations", "before": 0, "peak": 450, "end": 0}, {"kind": "rounding", "before": 10, "peak": 50, "end": 10}], "lines": [{"file": "b.py", "line": 4, "function": "h", "inner": "", "text": "y", "bytes": 450, "count": 2}], "modules": [{"name": "layers.*", "bytes": 850, "activations": 450, "count": 3}], "file": "10.stacks", "curve": [[20, 410, 400, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0], [40, 900, 400, 0, 0, 0, 0, 450, 0, 0, 0, 0, 50, 0], [60, 410, 400, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0]]})";

constexpr const char* kTrace =
    R"({"record": "trace", "file": "", "steps": 1, "start_ns": 5, "blocks": [], "regions": [["step", "forward", -1, 10, 70]]})";

struct Measured {
  test::ScratchFolder folder;
  MeasuredTrainingCommandResult result;

  explicit Measured(const std::string& memory, const std::string& paths = "activations;a.py:1:f 450\nnonsense\n") {
    CommandSettings settings;
    settings.folder = folder.path;
    const auto append = [](const std::string& line) {
      return "printf '%s\\n' '" + line + "' >>$MEMTUNE_ATTACH/10.jsonl; ";
    };
    settings.command = {"sh", "-c",
                        tests::kTrain + ("train 10 0 1 5; printf '%s' '" + paths + "' >$MEMTUNE_ATTACH/10.stacks; " +
                                         append(memory) + append(kTrace) + "finished 10"),
                        "sh"};
    result = measure_command(settings);
  }
};

}  // namespace

TEST_CASE("the memory of a step has owners, lines, modules and call paths") {
  const Measured measured(kMemory);
  const result::TrialMeasurement& m = measured.result.row.measurement;
  REQUIRE(m.outcome == TrialOutcome::ok);
  REQUIRE(m.memory.has_value());
  CHECK(m.memory->step == 6);
  CHECK(m.memory->phase == result::PeakMemoryTrainingPhase::backward);
  CHECK(m.memory->measured_bytes == 900);
  CHECK(peak_of(*m.memory) == 900);
  CHECK(m.memory->owners[1].kind == StepMemoryCategory::activations);
  CHECK(m.memory->owners[2].before_bytes == 10);
  CHECK(m.memory->lines[0].bytes == 450);
  CHECK(m.memory->modules[0].saved_bytes == 450);
  CHECK(m.memory->paths == "memory.stacks");
  CHECK(read_file(measured.folder.path / "memory.stacks") == "activations;a.py:1:f 450\n");
}

TEST_CASE("the curve of the trace has the measured peak and its owners") {
  const Measured measured(kMemory);
  const trace::Trace trace = trace::read_trace(measured.folder.path / "trace.mttrace").trace;
  REQUIRE(trace.memory.size() == 3);
  CHECK(trace.memory[1].time_ns == 40);
  CHECK(trace.memory[1].allocated_bytes == 900);
  std::vector<int64_t> held(trace.owners.size());
  for (const trace::OwnerMemorySample& each : trace.owned)
    if (each.time_ns <= 40) held[each.owner] = each.bytes;
  for (size_t i = 0; i < held.size(); ++i)
    CHECK(held[i] == (trace.owners[i].kind == MemoryOwnerKind::parameters ? 400
                      : trace.owners[i].name == "activations"             ? 450
                                                                          : 0));
  CHECK(trace.owned.back().bytes == 0);  // of the activations
}

TEST_CASE("a missing file of call paths and a ring that overflowed are notes") {
  const Measured measured(with(with(kMemory, "10.stacks", "11.stacks"), R"("complete": true)", R"("complete": false)"));
  REQUIRE(measured.result.row.measurement.memory.has_value());
  CHECK(measured.result.row.measurement.memory->paths.empty());
  CHECK_FALSE(measured.result.row.measurement.memory->complete);
  std::string notes;
  for (const std::string& note : measured.result.notes) notes += note + "\n";
  CHECK(notes.find("call paths of the memory cannot be kept") != std::string::npos);
  CHECK(notes.find("more than were kept") != std::string::npos);
}

TEST_CASE("records of a step's memory that no shim writes are no measurement") {
  const auto refused = [](const std::string& memory) {
    const Measured measured(memory);
    CHECK(measured.result.row.measurement.outcome == TrialOutcome::error);
    return measured.result.row.measurement.reason;
  };
  CHECK(refused(with(kMemory, R"("kind": "rounding")", R"("kind": "dust")")).find("unknown kind of memory") !=
        std::string::npos);
  refused(with(kMemory, R"("peak": 450)", R"("peak": -450)"));
  refused(with(kMemory, "[40, 900, 400", "[10, 900, 400"));     // back in time
  refused(with(kMemory, "[40, 900, 400", "[40, 900, 400, 0"));  // another number of kinds
  refused(with(kMemory, "[40, 900, 400", "[40, -900, 400"));
  refused(with(kMemory, R"("step": 6)", R"("step": 0)"));
  CHECK(refused(with(kMemory, R"("peak": 450)", R"("peak": 1125899906842624)")).find("in the machine") !=
        std::string::npos);
}

}  // namespace memtune::memory_records_test
