#include "core/sweep/trials/trial_output_frame_parser.h"

#include <exception>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;

constexpr size_t kLongestFrame = size_t{256} << 20;  // a faulty trial must not fill this process's memory

ModelInspectionResult read_facts(const json& frame) {
  ModelInspectionResult facts;
  facts.program = frame.at("facts").get<plan::ProgramFacts>();
  facts.inputs = frame.at("inputs").get<std::vector<std::string>>();
  facts.loss = frame.at("loss").get<std::string>();
  facts.origin = frame.at("origin").get<trace::RunProvenance>();
  return facts;
}

int count_in(const json& frame, const char* key) { return frame.contains(key) ? whole_int(frame.at(key), 0) : 0; }

std::vector<DoctorCheckResult> read_checks(const json& frame) {
  std::vector<DoctorCheckResult> checks;
  for (const json& check : frame.at("checks")) {
    checks.push_back({check.at("name"), check.at("status"), check.value("detail", ""), check.value("fix", "")});
  }
  return checks;
}

ProcessFailure read_failure(const json& frame) {
  const result::TrialOutcome outcome = result::parse_outcome(frame.value("outcome", "error"));
  if (outcome == result::TrialOutcome::ok) throw UsageError("an error that is none");
  return {outcome, frame.at("message")};
}

std::optional<TrialAnswer> read_answer(const std::string& kind, const json& frame) {
  if (kind == "facts") return read_facts(frame);
  if (kind == "result") return frame.at("measurement").get<result::TrialMeasurement>();
  if (kind == "trained") return frame.at("training").get<result::ResumableTrainingResult>();
  if (kind == "saves") return frame.at("saves").get<result::StateSaveModeMeasurement>();
  if (kind == "doctor") return read_checks(frame);
  if (kind == "machine") return frame.at("machine").get<plan::MachineProfile>();
  if (kind == "announced") return RankZeroTorchrunStoreText{frame.at("text")};
  if (kind == "usage") return ReceivedUsageError{frame.at("message")};
  if (kind == "rank") return FailedWaitForOtherRank{frame.at("timed_out"), frame.at("message")};
  if (kind == "error") return read_failure(frame);
  return std::nullopt;
}

}  // namespace

void TrialOutputFrameParser::add(std::string_view bytes) {
  buffer_ += bytes;
  size_t start = 0;
  for (size_t end; (end = buffer_.find('\n', start)) != std::string::npos; start = end + 1) {
    read_line(buffer_.substr(start, end - start));
  }
  buffer_.erase(0, start);
  if (buffer_.size() > kLongestFrame) {
    if (damage_.empty()) damage_ = "a frame without an end";
    buffer_.clear();
  }
}

void TrialOutputFrameParser::read_line(const std::string& line) try {
  const json frame = parse_json(line);
  const std::string kind = frame.at("frame");
  if (kind == "phase") {
    phase_ = {frame.at("name"), count_in(frame, "step"), count_in(frame, "steps"), frame.value("note", "")};
    if (progress_) progress_(phase_);
  } else if (auto answer = read_answer(kind, frame)) {
    answer_ = std::move(answer);
  }
} catch (const std::exception& error) {
  if (damage_.empty()) damage_ = "a frame that makes no sense: '" + line.substr(0, 60) + "'";
}

}  // namespace memtune::sweep
