"""Emulated CUDA for every Python process of a test: torch.cuda over libfakecuda.so, installed when torch is imported.

FAKE_CUDA_LIBRARY: the library. FAKE_CUDA_DEVICES (1), FAKE_CUDA_BYTES (memory of each), FAKE_CUDA_BUILD ("13.0", empty for a
torch without CUDA). torch.cuda.make_graphed_callables stays torch's own and fails, as a refused capture does.
"""

import contextlib
import ctypes
import importlib.abc
import importlib.util
import os
import sys
import time
import types

LIBRARY = os.environ.get("FAKE_CUDA_LIBRARY")
BYTES = int(os.environ.get("FAKE_CUDA_BYTES", str(80 << 30)))
NAME = "NVIDIA A100-SXM4-80GB"


def visible():
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return int(os.environ.get("FAKE_CUDA_DEVICES", "1"))
    return len([entry for entry in listed.split(",") if entry.strip()])


def patch(torch, library):
    cuda = torch.cuda
    for name in ("fake_used", "fake_peak", "fake_host_copies"):
        getattr(library, name).restype = ctypes.c_int64
    library.fake_limit(ctypes.c_int64(BYTES))
    torch.version.cuda = os.environ.get("FAKE_CUDA_BUILD", "13.0") or None

    def index(device=None):
        if isinstance(device, int):
            return device
        found = None if device is None else torch.device(device).index
        return library.fake_current() if found is None else found

    def set_device(device):
        if torch.version.cuda is None:
            raise AttributeError("module 'torch._C' has no attribute '_cuda_setDevice'")
        if index(device) >= visible():
            raise torch.AcceleratorError("CUDA error: invalid device ordinal")
        library.fake_set(index(device))

    def properties(device=None):
        # a PCI address that no machine has
        pci = {"pci_domain_id": 0xFFFF, "pci_bus_id": 0, "pci_device_id": 0}
        return types.SimpleNamespace(name=NAME, total_memory=BYTES, major=8, minor=0, multi_processor_count=108, **pci)

    class Stream:
        def __init__(self, device=None, priority=0):
            self.device = torch.device("cuda", index(device))

        synchronize = wait_event = wait_stream = lambda self, other=None: None

    class Event:
        def __init__(self, enable_timing=False, blocking=False, interprocess=False):
            self.is_timed, self.at = enable_timing, None

        def record(self, stream=None):
            self.at = time.monotonic()

        def synchronize(self):
            assert self.at is not None, "waited for before it was recorded"

        def elapsed_time(self, other):
            assert self.is_timed and other.is_timed, "both events need enable_timing"
            return (other.at - self.at) * 1000.0

    @contextlib.contextmanager
    def stream(chosen):
        yield chosen

    cuda.is_available = lambda: visible() > 0
    cuda.device_count = visible
    cuda.is_initialized = lambda: True
    cuda.init = cuda._lazy_init = lambda: None
    cuda._is_in_bad_fork = lambda: False
    cuda.current_device = lambda: library.fake_current()
    cuda.set_device = set_device
    cuda.get_device_properties = properties
    cuda.get_device_name = lambda device=None: NAME
    cuda.get_device_capability = lambda device=None: (8, 0)
    cuda.synchronize = lambda device=None: None
    cuda.empty_cache = lambda: None
    cuda.manual_seed = cuda.manual_seed_all = lambda seed: None
    cuda.reset_peak_memory_stats = lambda device=None: library.fake_reset_peak(index(device))
    cuda.max_memory_reserved = cuda.max_memory_allocated = lambda device=None: library.fake_peak(index(device))
    cuda.memory_allocated = lambda device=None: library.fake_used(index(device))
    cuda.Stream, cuda.Event, cuda.stream = Stream, Event, stream
    cuda.current_stream = cuda.default_stream = Stream
    cuda.amp.common.amp_definitely_not_available = lambda: False
    cuda.host_copies = lambda: library.fake_host_copies()
    torch.Tensor.record_stream = lambda self, stream: None
    torch.Tensor.pin_memory = lambda self, device=None: self
    torch.Tensor.is_pinned = lambda self, device=None: False
    empty = torch.empty
    torch.empty = lambda *size, pin_memory=False, **options: empty(*size, **options)


class Finder(importlib.abc.MetaPathFinder):
    is_busy = False

    def find_spec(self, name, path, target=None):
        if name != "torch" or self.is_busy:
            return None
        self.is_busy = True
        spec = importlib.util.find_spec("torch")
        self.is_busy = False
        load = spec.loader.exec_module

        def execute(module):
            library = ctypes.CDLL(LIBRARY, mode=ctypes.RTLD_GLOBAL)  # its getAccelerator comes before torch's own
            load(module)
            patch(module, library)

        spec.loader.exec_module = execute
        return spec


if LIBRARY:
    sys.meta_path.insert(0, Finder())
