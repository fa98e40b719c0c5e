// Protocol between memtune and the process that runs a trial. Frames are plain JSON, so that tests can replace either
// side.
//
//   memtune-trial inspect REQUEST.json     load the model, report its facts
//   memtune-trial run REQUEST.json         run the request's plan and measure it
//   memtune-trial train REQUEST.json       train with saves (core/plan/request/resumable_training_request.h)
//   memtune-trial save REQUEST.json        the same, to measure the cost of saving
//   memtune-trial doctor [cpu|cuda|cuda:N] check the machine and the build
//   memtune-trial announce HOST PORT PREFIX RANK MILLISECONDS [TEXT]
//                                          rank 0 stores TEXT in a c10d store, other ranks read it
//   memtune-trial probe [cpu|cuda|cuda:N]  measure the machine's rates
//   memtune-trial later [cpu|cuda|cuda:N]  load the device's libraries, read words as above from stdin, a JSON array
//                                          in one line, and act on them; stdin ends: do nothing
//
// The trial writes frames to file descriptor 3, one JSON object per line; stdout and stderr are a log for people.
//
//   {"frame": "phase", "name": "load|reference|warmup|measure|trace|train|saved|saving|probe", "step": 1, "steps": 5,
//    "note": "loss 5.5, 12 ms"}                       the note is optional, for people
//   {"frame": "facts", "facts": ProgramFacts, "inputs": ["tokens:int64[2,128]<256"], "loss": "next_token",
//    "origin": trace::Origin}
//   {"frame": "result", "measurement": Measurement}     also for device_oom, nan, mismatch, with the reason
//   {"frame": "trained", "training": ResumableTrainingResult}
//   {"frame": "saves", "saves": StateSaveModeMeasurement}
//   {"frame": "doctor", "checks": [{"name": "CUPTI", "status": "ok|warn|fail", "detail": "...", "fix": "..."}]}
//   {"frame": "machine", "machine": MachineProfile}
//   {"frame": "announced", "text": "..."}               the text of rank 0
//   {"frame": "usage", "message": "..."}                an error of the user: exit code 2
//   {"frame": "rank", "timed_out": true, "message": "..."}  a rank that could not continue without another one
//   {"frame": "error", "message": "..."}                an unexpected failure, or the one named by
//                                                       "outcome": "host_oom" or "disk_full"
//
// The last frame is one of facts, result, trained, saves, doctor, machine, announced, usage, rank, error. A process
// that ends without one has crashed.
#pragma once

namespace memtune::plan {

inline constexpr int kFrameDescriptor = 3;
// For rank 0 in a launch on several machines: the listening socket of its store.
inline constexpr int kRendezvousDescriptor = 4;

}  // namespace memtune::plan
