// Runs a command so that none of its processes outlives this one. A supervisor process in between adopts what the
// command leaves behind (as a subreaper), even processes in sessions of their own. It kills them all on request, or
// when this process ends. If the supervisor itself is killed, this process adopts and kills them: it is a subreaper
// too while this object exists.
//
// The command runs as without memtune, with the privileges, limits and folder of this process. stdin is empty.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/file.h"

namespace memtune::attach {

class SubreaperCommandSupervisor {
 public:
  // `log`: descriptor for stdout and stderr. `folder`: the supervisor removes it if this process ends without end().
  // Throws UsageError if there is no such program, IoError. This process must have no other threads.
  SubreaperCommandSupervisor(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                             int log, const std::filesystem::path& folder);
  ~SubreaperCommandSupervisor();  // kills all processes
  SubreaperCommandSupervisor(const SubreaperCommandSupervisor&) = delete;
  SubreaperCommandSupervisor& operator=(const SubreaperCommandSupervisor&) = delete;

  // Status of the command as from waitpid(), once it has ended. Processes that it started may still run.
  std::optional<int> status();
  int descriptor() const { return status_pipe_.get(); }  // readable once there is a status

  void terminate();  // SIGTERM to all its processes
  void end();        // SIGKILL to all its processes; none is left when this returns

 private:
  void order(char what);
  void read_status();
  void end_all();

  // Makes this process a subreaper.
  class Adoption {
   public:
    Adoption();
    ~Adoption();
    Adoption(const Adoption&) = delete;
    Adoption& operator=(const Adoption&) = delete;

   private:
    int before_ = 0;
  };

  const Adoption adoption_;
  std::vector<pid_t> others_;  // children of this process that are not the command's
  pid_t pid_ = -1;
  FileDescriptor command_pipe_, status_pipe_;
  std::optional<int> status_;
};

}  // namespace memtune::attach
