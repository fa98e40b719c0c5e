// A command of somebody else's, so that nothing of it outlives this process: a process between the two adopts whatever
// the command leaves behind, in sessions of its own too, and ends it all when it is told or when this process is gone.
//
// The command runs as it would without memtune: its privileges, limits and folder are this process's; stdin is empty.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/file.h"

namespace memtune::attach {

class Guardian {
 public:
  // `log`: of stdout and stderr. `folder` is removed by the guardian when this process has gone without ending it.
  // UsageError when there is no such program, IoError. This process must have no other threads.
  Guardian(const std::vector<std::string>& command, const std::vector<std::string>& environment, int log,
           const std::filesystem::path& folder);
  ~Guardian();  // ends all
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  // The command's, as waitpid() gives it, once it has ended. What it started may still run.
  std::optional<int> status();
  int descriptor() const { return told_.get(); }  // readable when there is a status

  void ask_to_end();  // SIGTERM to all of it
  void end();         // SIGKILL to all of it; none is left when this returns

 private:
  void read_status();

  pid_t pid_ = -1;
  Descriptor orders_, told_;
  std::optional<int> status_;
};

}  // namespace memtune::attach
