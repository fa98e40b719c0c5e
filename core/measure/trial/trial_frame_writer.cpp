#include "core/measure/trial/trial_frame_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "core/plan/request/trial_protocol.h"

namespace memtune::trial {

TrialFrameWriter::TrialFrameWriter()
    : descriptor_(fcntl(plan::kFrameDescriptor, F_GETFD) >= 0 ? plan::kFrameDescriptor : 1) {}

void TrialFrameWriter::phase(const std::string& name, int step, int steps, const std::string& note) {
  nlohmann::json frame = {{"frame", "phase"}, {"name", name}, {"step", step}, {"steps", steps}};
  if (!note.empty()) frame["note"] = note;
  send(frame);
}

// If the process that started the trial is gone, the frame is dropped.
void TrialFrameWriter::send(const nlohmann::json& frame) {
  std::string line = frame.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    ssize_t n = write(descriptor_, line.data() + sent, line.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
}

}  // namespace memtune::trial
