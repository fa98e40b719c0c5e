#!/usr/bin/env python3
"""Takes the defences against the engines' traps away, one by one, and demands that a test notices.

    python3 tests/mutants/run.py --check                      do the lines to be replaced still exist?
    python3 tests/mutants/run.py --torch-python PYTHON        builds and runs each in a copy of the tree; minutes

The table that it prints is kept in results.md.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = "*tests/conformance/scripted*"
OFFLOAD, TIER, DISK = "*tests/offload/*", "*tests/tier/*", "*tests/conformance/disk_faults*"
ANSWERS, TRIAL = "*tests/result/*,*tests/findings/*,*tests/plan/*,*tests/config/*", "*tests/trial/*"
SHARD, SWEEP = "*tests/shard/*", "*tests/sweep/trial_group*"
ENGINES = "*tests/offload/*,*tests/conformance/strategies*,*tests/checkpoint/*,*tests/autograd/*,*tests/step/*"

# Trap, file, what stands there, what stands there instead, the tests that have to fail.
MUTANTS = [
    ("2, 3 source freed, or copied back over, before its copy out ended", "core/offload/offload_out.cpp",
     "compute_waits(transfer.out_done_);", "", OFFLOAD),
    ("2, 3 the same, from the oldest on", "core/offload/offload_out.cpp",
     "if (!ended) compute_waits(oldest.out_done_);", "", OFFLOAD),
    ("2 source freed with its transfer, before its copy out ended", "core/offload/offload_back.cpp",
     "device_.wait_quietly(Stream::compute, transfer.out_done_);", "return;", OFFLOAD),
    ("4 host memory reused in flight", "core/offload/offload_out.cpp",
     "for (const auto& event : piece->lease.free_after()) device_.wait(out_, event);", "", OFFLOAD),
    ("4 lease given back without its event", "core/tier/host_pool.cpp",
     "  insert(std::move(range));", "  range.free_after.clear();\n  insert(std::move(range));", OFFLOAD),
    ("4 neighbours free behind the events of one", "core/tier/host_pool.cpp",
     "add(first->free_after, std::move(event));", "(void)event;", TIER),
    ("4, 5 a point taken for another stream's", "core/device/stream_order.h",
     "return stream == other.stream && number >= other.number;", "return number >= other.number;", OFFLOAD),
    ("5 handed to compute without an event", "core/offload/offload_back.cpp",
     "compute_waits(transfer.in_done_);", "", OFFLOAD),
    ("5 copied out before compute made it", "core/offload/offload_out.cpp",
     "if (settings_.side_stream) device_.wait(Stream::out, device_.record(Stream::compute));", "", OFFLOAD),
    ("6 copied back into memory that compute still uses", "core/offload/offload_back.cpp",
     "if (settings_.side_stream) device_.wait(in_, device_.record(Stream::compute));", "", OFFLOAD),
    ("7, 8 a value known by its address", "core/step/value_table.h",
     "return tensor.storage().unsafeGetStorageImpl(); }",
     "return static_cast<const c10::StorageImpl*>(tensor.storage().data()); }", ENGINES),
    ("7, 9 strides and offset forgotten", "core/autograd/geometry.h",
     "set_sizes_and_strides(sizes, strides, offset)", "set_sizes_contiguous(sizes)", ENGINES),
    ("10 write after the save not noticed", "core/step/saved_tensor.cpp",
     "counter_.current_version() == version_,", "true,", ENGINES),
    ("10 rerun starts from overwritten bytes", "core/autograd/saved_value.cpp",
     "return live.clone().storage();", "return live.storage();", ENGINES),
    ("11 a use that ends is not taken from the count", "core/autograd/saved_value.cpp",
     "--value_->uses(by_);", "", ENGINES),
    ("11 a use counts twice when it is moved", "core/autograd/saved_value.cpp",
     "counts_(std::exchange(other.counts_, false)) {}", "counts_(other.counts_) {}", ENGINES),
    ("11 the last use keeps the bytes", "core/autograd/saved_value.cpp",
     "if (!value_->used()) value_->let_go();", "", ENGINES),
    ("11 a rerun's inputs are held on when it was run", "core/checkpoint/recompute.cpp",
     "for (TensorInput& input : instance.inputs) input.use.end();", "", ENGINES),
    ("11 tickets left in the queue of a failed backward", "core/autograd/hooks.cpp",
     "at::ones({}).requires_grad_().neg().backward();", "", ENGINES),
    ("12 parameters moved", "core/step/value_table.cpp",
     "parameters_.find(storage_of(tensor)) == parameters_.end();", "true;", ENGINES),
    ("13 rerun draws other numbers", "core/checkpoint/recompute.cpp",
     "generator_.set_state(state);", "", ENGINES),
    ("13 rerun moves the running statistics", "core/checkpoint/recompute.cpp",
     "make_argument(argument, next, written || statistics)",
     "make_argument(argument, next, written && !statistics)", ENGINES),
    ("14 what the budget has no room for is not written", "core/tier/host_tier.cpp",
     "writing_.push_back(piece);", "", TIER),
    ("14 what comes from the disk is believed", "core/disk/block_store.cpp",
     "job.check = [this, state, data] { verify(*state, data); };", "", DISK),
    ("2, 3 copies without an event are not waited for", "core/offload/offload.cpp",
     "device_.synchronize_quietly();  // what was issued", ";  // what was issued", OFFLOAD),
    ("the noise of one parameter excuses another", "core/trial/reference.cpp",
     "const double own = index < 0 ? reference.loss_noise : reference.gradients[static_cast<size_t>(index)].noise;",
     "double own = index < 0 ? reference.loss_noise : 0;\n    for (const auto& one : reference.gradients) own = std::max(own, one.noise);",
     TRIAL),
    ("steps of other lengths are compared as they are", "core/result/ranking.cpp",
     "[&](const Row* row) { return same_axes(*row, *rows.front()); }", "[](const Row*) { return true; }", ANSWERS),
    ("advice turns the wrong way", "core/findings/knobs.cpp",
     "std::max(least, 2 * std::min(bytes, kMostBytes))", "std::min(least, std::min(bytes, kMostBytes) / 2)", ANSWERS),
    ("a transposed convolution counts as cheap", "core/config/op_traits.cpp",
     "conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d", "conv3d conv_tbc conv_transpose1d", ANSWERS),
    ("given to an op: a list is recorded by reference", "core/checkpoint/recorder.cpp",
     "if (value.isList()) return value.toList().copy();", "", SCRIPTS),
    ("given to an op: writes through conjugate views are not seen", "core/autograd/geometry.h",
     "!tensor.is_quantized() &&", "!tensor.is_quantized() && !tensor.is_conj() && !tensor.is_neg() &&", SCRIPTS),
    ("given to an op: a rerun is always in grad mode", "core/checkpoint/recompute.cpp",
     "grad(instance.grad_mode)", "grad(true)", SCRIPTS),
    ("given to an op: its own generator is not the one that is set", "core/checkpoint/recorder.cpp",
     "if (value.isGenerator()) return value.toGenerator();", "(void)value;", SCRIPTS),
    ("given to an op: the sizes that it gives in place are not seen", "core/step/running_op.cpp",
     "static_cast<int>(i), tensor,", "static_cast<int>(i), tensor.detach(),", SCRIPTS),
    ("compared: buffers go on from run to run", "core/trial/session.cpp",
     "  program::ModuleState restore(program_->state, device::torch_device(*device_));\n  return forward_backward",
     "  return forward_backward", TRIAL),
    ("compared: one repetition tells the noise", "core/trial/gradient_check.cpp",
     "kNoisyRepetitions = 4", "kNoisyRepetitions = 1", TRIAL),
    ("compared: imaginary parts do not count", "core/trial/reference.cpp",
     "at::view_as_real(tensor).flatten() : tensor).to", "at::real(tensor) : tensor).to", TRIAL),
    ("compared: the file's gradients are believed", "core/trial/reference.cpp",
     "if (!file || hash_of(tensor) != entry.hash)", "if (!file)", TRIAL),
    ("compared: one rank repeats more often than the others", "core/trial/gradient_check.cpp",
     "if (runner_.any_rank(!reference.noise().equal))", "if (!reference.noise().equal)", TRIAL),
    ("habits: source freed before its copy out ended", "core/offload/offload_out.cpp",
     "    stash_.pop_front();\n    compute_waits(oldest.out_done_);", "    stash_.pop_front();", OFFLOAD),
    ("habits: what was written since is a repeat", "core/step/saved_copies.cpp",
     "tensor.unsafeGetTensorImpl()->version_counter().current_version(),", "0,", ENGINES),
    ("habits: nested blocks are run again as a whole", "core/checkpoint/recompute.h",
     "whole_blocks_(whole_blocks && !nested)", "whole_blocks_(whole_blocks)", ENGINES),
    ("sharded: not gathered for ops that are run again", "core/checkpoint/recompute.cpp",
     "if (parameters_) parameters_->before_rerun(stack);", "", SHARD),
    ("sharded: not gathered for backward", "core/shard/parameter_reads.cpp",
     "    owner.read_by_node(units);\n", "", SHARD),
    ("sharded: read before it has come", "core/gather/unit_schedule.cpp",
     "  gather(unit);\n  memory_.wait(unit);\n", "  gather(unit);\n", SHARD),
    ("sharded: an earlier step's numbers", "core/gather/unit_schedule.cpp",
     "  for (Unit& unit : units_) unit.stale = true;\n", "", SHARD),
    ("sharded: reduced before all gradients have come", "core/shard/sharded_parameters.cpp",
     "if (++flats_[flat].gradients == flats_[flat].parameter->parameters()) reduce(flat);",
     "if (++flats_[flat].gradients == 1) reduce(flat);", SHARD),
    ("sharded: a sum for a mean", "core/shard/sharded_parameters.cpp",
     "if (!is_narrow(done.part)) done.part.div_(collectives_.size());", "", SHARD),
    ("sharded: ranks in different orders", "core/shard/sharded_parameters.cpp",
     "  check_order();\n  schedule_->end_backward();\n", "  schedule_->end_backward();\n", SHARD),
    ("sharded: gathered before it has come from the host", "core/shard/sharded_parameters.cpp",
     "parameter.name(), part.there);", "parameter.name());", SHARD),
    ("sharded: handed out before it has come to the host", "core/shard/sharded_parameters.cpp",
     "  host_->settle();\n", "", SHARD),
    ("sharded: on the host the last pass counts alone", "core/shard/sharded_parameters.cpp",
     "if (std::exchange(flat.adds, false)) flat.parameter", "if (false) flat.parameter", SHARD),
    ("sharded: kept and reduced in the model's dtype", "core/shard/flat_parameter.cpp",
     "dtype && tensor.is_floating_point() ?", "dtype && tensor.is_complex() ?", SHARD),
    ("sharded: reduced in the model's dtype", "core/shard/flat_parameter.cpp",
     "of_floating(settings.reduce_dtype, parameters", "of_floating({}, parameters", SHARD),
    ("sharded: one op's units free another's of the same node", "core/shard/parameter_reads.cpp",
     "return add_missing(needed->units, read_);", "add_missing(needed->units, {});", SHARD),
    ("sharded: a write through a view has its base's node", "core/shard/parameter_reads.cpp",
     "if (tensor.defined() && tensor.is_view()) need_in_backward(at::Tensor(tensor._base()));", "", SHARD),
    ("sharded: a write that hands nothing on has no node", "core/shard/parameter_reads.cpp",
     "    written_.push_back(inputs[i]);\n", "", SHARD),
    ("sharded: views of parameters move", "core/step/executor.h",
     "if (parameters) copies_.keep_parameter_views();", "", SHARD),
    ("ranks: one's failure is ignored", "core/sweep/trial_group.cpp",
     "if (!failed_ && !worked(*answers_[rank])) failed_ = Clock::now();", "", SWEEP),
    ("ranks: those that lost another are named", "core/sweep/trial_group.cpp",
     "if (std::holds_alternative<RankProblem>(answer) || worked(answer)", "if (worked(answer)", SWEEP),
]


def check():
    missing = [f"{trap}: {file} has no '{old}'" for trap, file, old, _, _ in MUTANTS
               if (ROOT / file).read_text().count(old) != 1]
    print("\n".join(missing) or f"{len(MUTANTS)} mutants, every line is there once")
    return 1 if missing else 0


def run(command, **keywords):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **keywords)


def first_failure(output):
    failure = re.search(r"TEST CASE: +([^\n]*)\n(?:.*\n)*?.*ERROR: ([^\n]*)", output)
    case, said = failure.groups() if failure else ("the program", "it ended")
    return f"{case.strip()} | {said[:90].replace('|', '/')}"


def program(tests):
    return "memtune-tests" if tests in (TIER, ANSWERS, SWEEP) else "memtune-torch-tests"  # without LibTorch, and with


def build(copy, tests):
    built = run(["ninja", "-C", copy / "build/release", program(tests)])
    if built.returncode:
        sys.exit(built.stdout[-3000:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--torch-python", help="a python that has torch 2.11")
    parser.add_argument("--only", default="", help="mutants whose trap has this in its name")
    options = parser.parse_args()
    if options.check or check():
        return check()
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "memtune"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("build", ".git", ".gpu"))
        run(["cmake", "--preset", "release", f"-DMEMTUNE_TORCH_PYTHON={options.torch_python}"], cwd=copy, check=True)
        for tests in OFFLOAD, TIER:
            build(copy, tests)
        print("| trap, and the defence taken away | test that failed | what it said |\n|---|---|---|")
        for trap, file, old, new, tests in [mutant for mutant in MUTANTS if options.only in mutant[0]]:
            path = copy / file
            text = path.read_text()
            path.write_text(text.replace(old, new))
            build(copy, tests)
            try:
                tested = run([copy / "build/release/bin" / program(tests), "-sf=" + tests], timeout=120)
                failed, what = tested.returncode != 0, first_failure(tested.stdout)
            except subprocess.TimeoutExpired:
                failed, what = True, "the tests | did not end"
            survivors += not failed
            print(f"| {trap} | {what if failed else 'NONE | the mutant survived'} |", flush=True)
            path.write_text(text)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
