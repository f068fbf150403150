"""How long builds take: with empty caches, and by the next process with what the first one kept.

`python -m bench.building NAME...` builds models of the benchmarks, and `torch:NAME` models of
bench.torch_models, by tvm_stitch, torch.compile and XLA, one at a time and each in a fresh process.
A build begins where PyTorch is imported, the GPU is awake and the inputs lie there; it ends with
the first result. What a system imports for itself counts, and is a stage. Where there is no GPU,
only tvm_stitch builds, models of the benchmarks alone, and a build ends with the executable.
"""
