// How memtune talks to the process that runs a trial. Plain words, so that a test can play either side.
//
//   memtune-trial inspect REQUEST.json     load the model, say what it is
//   memtune-trial run REQUEST.json         run the request's plan, measure
//   memtune-trial train REQUEST.json       steps under the request's plan, with saves (core/config/run_request.h)
//   memtune-trial save REQUEST.json        the same, to measure what one way of saving costs
//   memtune-trial doctor [cpu|cuda|cuda:N] say what the machine and the build can do
//   memtune-trial announce HOST PORT PREFIX RANK MILLISECONDS [TEXT]
//                                          rank 0 leaves TEXT in a store of c10d, other ranks wait for it
//   memtune-trial probe [cpu|cuda|cuda:N]  measure the machine
//
// The trial writes frames, one JSON object a line, to file descriptor 3; stdout and stderr are a log for people.
//
//   {"frame": "phase", "name": "load|reference|warmup|measure|trace|train|saved|saving|probe", "step": 1, "steps": 5,
//    "note": "loss 5.5, 12 ms"}                       the note, where there is one, is for people
//   {"frame": "facts", "facts": ProgramFacts, "inputs": ["tokens:int64[2,128]<256"], "loss": "next_token",
//    "origin": trace::Origin}
//   {"frame": "result", "measurement": Measurement}     also for device_oom, nan, mismatch: results with a reason
//   {"frame": "trained", "training": TrainingResult}
//   {"frame": "saves", "saves": SaveMeasurement}
//   {"frame": "doctor", "checks": [{"name": "CUPTI", "status": "ok|warn|fail", "detail": "...", "fix": "..."}]}
//   {"frame": "machine", "machine": MachineProfile}
//   {"frame": "announced", "text": "..."}               what rank 0 left
//   {"frame": "usage", "message": "..."}                the person's mistake: the command ends with exit code 2
//   {"frame": "rank", "timed_out": true, "message": "..."}  of several ranks, one that could not go on without another
//   {"frame": "error", "message": "..."}                the trial failed in a way nobody planned for, or, with
//                                                       "outcome": "host_oom" or "disk_full", by that
//
// The last frame is one of facts, result, trained, saves, doctor, machine, announced, usage, rank, error; a process
// that ends without one has crashed.
#pragma once

namespace memtune::config {

inline constexpr int kFrameDescriptor = 3;
// Of rank 0 in a launch of several machines: the socket that its store listens at.
inline constexpr int kRendezvousDescriptor = 4;

}  // namespace memtune::config
