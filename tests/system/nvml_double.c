/* A driver of two invented accelerators (NVML_COUNT=8: eight; a slice MIG-… of one has 20 GiB) with NVML's own binary interface, so that the real nvidia-ml-py can be run where
 * there is no GPU. Behaviour by environment: NVML_LOST=1 accelerator 1 is lost from its second utilisation on;
 * NVML_THROTTLE=mask; NVML_OLD=1 a driver without the event reasons' new name and without any energy counter;
 * NVML_PROCESSES=1,2 processes of these numbers compute on accelerator 0;
 * NVML_POWER_CODE=code power cannot be determined, for this reason; NVML_CALLS=file a byte is appended for each look, the number of
 * the accelerator that was asked. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, GPU_IS_LOST = 15 };
typedef struct { int index; int looks; } *device_t;
static struct { int index; int looks; } accelerators[9] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}};
enum { SLICE = 8 };
static int lost(device_t d) { return d->index == 1 && getenv("NVML_LOST") && d->looks > 1; }

/* NVML_INIT, NVML_HANDLE, NVML_MEMORY=code: the call fails with this code; of handles those in NVML_HANDLES, as '013'. */
static int code_of(const char *name) { const char *code = getenv(name); return code ? atoi(code) : SUCCESS; }
int nvmlInit_v2(void) { return code_of("NVML_INIT"); }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return code_of("NVML_INIT"); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "invented error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { snprintf(text, length, "570.86.15"); return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) {
    const char *text = getenv("NVML_COUNT");
    *count = text ? (unsigned)atoi(text) : 2;
    return SUCCESS;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, device_t *device) {
    *device = (device_t)&accelerators[SLICE];
    return strncmp(uuid, "MIG-", 4) ? 6 /* not found */ : SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *device) {
    const char *failing = getenv("NVML_HANDLES");
    *device = (device_t)&accelerators[index];
    return failing && strchr(failing, '0' + (int)index) ? code_of("NVML_HANDLE") : SUCCESS;
}
int nvmlDeviceGetName(device_t d, char *text, unsigned length) {
    (void)d;
    snprintf(text, length, "NVIDIA A100-SXM4-80GB");
    return SUCCESS;
}
int nvmlDeviceGetUUID(device_t d, char *text, unsigned length) {
    snprintf(text, length, "GPU-0000000%d-1111-2222-3333-444444444444", d->index);
    return SUCCESS;
}
typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} pci_t;
int nvmlDeviceGetPciInfo_v3(device_t d, pci_t *pci) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", d->index + 7);
    return SUCCESS;
}
typedef struct { unsigned long long total, free, used; } memory_t;
int nvmlDeviceGetMemoryInfo(device_t d, memory_t *memory) {
    if (lost(d)) return GPU_IS_LOST;
    if (code_of("NVML_MEMORY")) return code_of("NVML_MEMORY");
    *memory = (memory_t){80ULL << 30, 50ULL << 30, 30ULL << 30};
    if (d->index == SLICE) memory->total = 20ULL << 30;
    return SUCCESS;
}
int nvmlDeviceGetEnforcedPowerLimit(device_t d, unsigned *milliwatts) { *milliwatts = d->index ? 300000 : 400000; return SUCCESS; }
typedef struct { unsigned gpu, memory; } utilization_t;
int nvmlDeviceGetUtilizationRates(device_t d, utilization_t *use) {
    d->looks++;
    const char *calls = getenv("NVML_CALLS");
    if (calls) {
        int file = open(calls, O_WRONLY | O_APPEND | O_CREAT, 0644);
        char number = (char)('0' + d->index);
        if (file < 0 || write(file, &number, 1) != 1) abort();
        close(file);
    }
    if (lost(d)) return GPU_IS_LOST;
    *use = (utilization_t){93, 41};
    return SUCCESS;
}
int nvmlDeviceGetTemperature(device_t d, int sensor, unsigned *celsius) {
    (void)sensor;
    if (lost(d)) return GPU_IS_LOST;
    *celsius = 64;
    return SUCCESS;
}
int nvmlDeviceGetPowerUsage(device_t d, unsigned *milliwatts) {
    (void)d;
    *milliwatts = 312500;
    const char *code = getenv("NVML_POWER_CODE");
    return code ? atoi(code) : SUCCESS;
}
int nvmlDeviceGetTotalEnergyConsumption(device_t d, unsigned long long *millijoules) {
    (void)d;
    *millijoules = 5000000;
    return getenv("NVML_OLD") ? NOT_SUPPORTED : SUCCESS;
}
int nvmlDeviceGetClockInfo(device_t d, int type, unsigned *mhz) { (void)d; *mhz = type == 2 ? 1593 : 1410; return SUCCESS; }
static int reasons(unsigned long long *mask) {
    const char *text = getenv("NVML_THROTTLE");
    *mask = text ? strtoull(text, NULL, 0) : 0;
    return SUCCESS;
}
int nvmlDeviceGetCurrentClocksEventReasons(device_t d, unsigned long long *mask) {
    (void)d;
    return getenv("NVML_OLD") ? NOT_SUPPORTED : reasons(mask);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(device_t d, unsigned long long *mask) { (void)d; return reasons(mask); }
int nvmlDeviceGetTotalEccErrors(device_t d, int type, int counter, unsigned long long *count) {
    if (counter == 0 && type && getenv("NVML_SICK")) { *count = 3; return SUCCESS; } /* since the driver began */
    if (d->index == 1) return NOT_SUPPORTED; /* ECC switched off */
    *count = type ? 0 : 12;
    return SUCCESS;
}

/* What a description asks besides: of the second device no VBIOS is given, of the first three NVLinks are up and a fourth is not there. */
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12040; return SUCCESS; }
int nvmlDeviceGetVbiosVersion(device_t d, char *text, unsigned length) {
    if (d->index) return NOT_SUPPORTED;
    snprintf(text, length, "92.00.45.00.06");
    return SUCCESS;
}
int nvmlDeviceGetTopologyCommonAncestor(device_t one, device_t other, int *level) {
    *level = one->index == other->index ? 0 : 40;
    return SUCCESS;
}
int nvmlDeviceGetNvLinkState(device_t d, unsigned link, int *active) {
    if (d->index || link > 3) return 2; /* invalid argument */
    *active = link != 1;
    return SUCCESS;
}

/* NVML_PROCESSES: numbers, separated by commas. */
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu, compute; } process_t;
int nvmlDeviceGetComputeRunningProcesses_v3(device_t d, unsigned *count, process_t *processes) {
    const char *text = getenv("NVML_PROCESSES");
    unsigned room = *count, found = 0;
    if (!text) return 13; /* function not found: this driver does not tell */
    if (d->index) { *count = 0; return SUCCESS; }
    for (char *next = (char *)text; *next; next += *next == ',') {
        unsigned pid = strtoul(next, &next, 10);
        if (processes && found < room) processes[found] = (process_t){pid, 1 << 20, ~0u, ~0u};
        found++;
    }
    *count = found;
    return processes ? SUCCESS : 7; /* insufficient size: ask again */
}
