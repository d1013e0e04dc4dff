/* A driver of CUDA for machines without a GPU: memory is the host's, kernels are counted and not run.
   Built as libcuda.so.1 and found by LD_LIBRARY_PATH. `null_counts` and `null_limit` are for the tests. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void *P;
enum { LAUNCHES, ALLOCATIONS, FREES, BYTES, UPLOADS, DOWNLOADS, COPIES, FILLS, WAITS, GRAPHS, PINNED, TRIMS, FAULTS };
int64_t null_counts[16], null_limit = (int64_t)80 << 30; /* bytes of memory: what is asked for beyond is refused */
int64_t null_fault;                                      /* what the next wait says, once: 700 is an illegal address */
int64_t null_version = 13000, null_devices = 1;

typedef struct { int capturing; int64_t launches; } Stream;
typedef struct { int64_t launches; } Graph;
typedef struct { struct timespec at; } Event;
static Stream stream0;
static __thread P context;
static char contexts[16];

static Stream *of(P s) { return (uintptr_t)s > 2 ? s : &stream0; }
static int no(void) { return 801; }
static int yes(void) { return 0; }
static int init(unsigned flags) { return null_devices ? 0 : 100; }
static int version(int *v) { *v = null_version; return 0; }
static int count(int *n) { *n = null_devices; return 0; }
static int get(int *d, int i) { *d = i; return i < null_devices ? 0 : 101; }
static int name(char *s, int n, int d) { strncpy(s, "Null GPU", n); return 0; }
static int uuid(char *u, int d) { memset(u, d, 16); return 0; }
static int total(size_t *n, int d) { *n = (size_t)80 << 30; return 0; }
static int info(size_t *f, size_t *t) { *t = null_limit; *f = null_limit - null_counts[BYTES]; return 0; }
static int attribute(int *v, int a, int d) {
    switch (a) {
    case 1: *v = 1024; break;            /* threads of a block */
    case 8: *v = 49152; break;           /* shared memory of a block */
    case 10: *v = 32; break;             /* a warp */
    case 16: *v = 132; break;            /* processors */
    case 38: *v = 50 << 20; break;       /* the cache */
    case 39: *v = 2048; break;           /* threads of a processor */
    case 75: *v = 9; break;              /* capability: 9.0 */
    case 81: *v = 233472; break;         /* shared memory of a processor */
    case 82: *v = 65536; break;          /* registers of a processor */
    case 97: *v = 232448; break;         /* shared memory of a block, asked for */
    case 34: case 41: case 115: *v = 1; break; /* asynchronous copies, one address space, pools */
    default: *v = 0;
    }
    return 0;
}
static int retain(P *c, int d) { *c = &contexts[d]; return 0; }
static int release(int d) { return 0; }
static int current(P *c) { *c = context; return 0; }
static int set_current(P c) { context = c; return 0; }
static int device_of(int *d) { *d = context ? (char *)context - contexts : 0; return context ? 0 : 201; }
static int priorities(int *least, int *most) { *least = 0; *most = -5; return 0; }
static int wait(void) { int e = null_fault; null_counts[WAITS]++; null_fault = 0; null_counts[FAULTS] += !!e; return e; }
static int stream_new(P *s, unsigned f, int p) { *s = calloc(1, sizeof(Stream)); return 0; }
static int stream_plain(P *s, unsigned f) { return stream_new(s, f, 0); }
static int stream_end(P s) { free(s); return 0; }
static int watched = 2; /* the strictest mode of a capture: who is not relaxed may not do what might disturb it */
static __thread int mode = 0;
static int stream_wait(P s) { return of(s)->capturing || (watched < 2 && mode < 2) ? 900 : wait(); }
static int capture(P s, int m) { of(s)->capturing = 1; of(s)->launches = 0; watched = m; return 0; }
static int exchange(int *m) { int was = mode; mode = *m; *m = was; return 0; }
static int captured(P s, P *g) {
    Graph *made = *g = malloc(sizeof *made);
    made->launches = of(s)->launches; of(s)->capturing = 0; watched = 2;
    return 0;
}
static int capturing(P s, int *status) { *status = of(s)->capturing; return 0; }
static int capture_info(P s, int *status, uint64_t *id, P *g, P *d, P *e, size_t *n) { return capturing(s, status); }
static int instantiate(P *e, P g, uint64_t flags) { *e = malloc(sizeof(Graph)); memcpy(*e, g, sizeof(Graph)); return 0; }
static int replay(P e, P s) { null_counts[LAUNCHES] += ((Graph *)e)->launches; null_counts[GRAPHS]++; return 0; }
static int graph_end(P g) { free(g); return 0; }
static int event_new(P *e, unsigned f) { *e = calloc(1, sizeof(Event)); return 0; }
static int event_end(P e) { free(e); return 0; }
static int event_record(P e, P s) { clock_gettime(CLOCK_MONOTONIC, &((Event *)e)->at); return 0; }
static int event_elapsed(float *ms, P a, P b) {
    struct timespec x = ((Event *)a)->at, y = ((Event *)b)->at;
    *ms = (y.tv_sec - x.tv_sec) * 1e3f + (y.tv_nsec - x.tv_nsec) * 1e-6f;
    return 0;
}
static int take(P *p, size_t n) {
    if (watched < 2 && mode < 2) return 900;
    if (null_counts[BYTES] + (int64_t)n > null_limit || !(*p = aligned_alloc(512, (n + 511) / 512 * 512))) return 2;
    null_counts[ALLOCATIONS]++; null_counts[BYTES] += malloc_usable_size(*p);
    return 0;
}
static int take_async(P *p, size_t n, P s) { return take(p, n); }
static int take_from(P *p, size_t n, P pool, P s) { return take(p, n); }
static int drop(P p) { null_counts[FREES]++; null_counts[BYTES] -= malloc_usable_size(p); free(p); return 0; }
static int drop_async(P p, P s) { return drop(p); }
static int pin(P *p, size_t n, unsigned f) { null_counts[PINNED]++; *p = aligned_alloc(512, (n + 511) / 512 * 512); return 0; }
static int unpin(P p) { null_counts[PINNED]--; free(p); return 0; }
static int pool_of(P *pool, int d) { *pool = contexts; return 0; }
static int pool_ask(P pool, int a, uint64_t *v) { *v = 0; return 0; }
static int trim(P pool, size_t keep) { null_counts[TRIMS]++; return 0; }
static int moved(int kind, P to, P from, size_t n) { null_counts[kind]++; memmove(to, from, n); return 0; }
static int upload(P to, P from, size_t n, P s) { return moved(UPLOADS, to, from, n); }
static int download(P to, P from, size_t n, P s) { return moved(DOWNLOADS, to, from, n); }
static int copy(P to, P from, size_t n, P s) { return moved(COPIES, to, from, n); }
static int fill(P to, unsigned char v, size_t n, P s) { null_counts[FILLS]++; memset(to, v, n); return 0; }
static int library(P *l, P code, P a, P b, unsigned c, P d, P e, unsigned f) { *l = malloc(1); return watched < 2 && mode < 2 ? 900 : 0; }
static int kernel(P *k, P l, const char *n) { *k = malloc(1); return 0; }
static int same(P *f, P k) { *f = k; return 0; }
static int kernel_attribute(int *v, int a, P k, int d) { *v = 0; return 0; }
static int counted(P s) { *(of(s)->capturing ? &of(s)->launches : &null_counts[LAUNCHES]) += 1; return 0; }
typedef struct { unsigned grid[3], block[3], shared; P stream, attributes; unsigned many; } Config;
static int launch_config(const Config *c, P f, P *args, P *extra) { return context ? counted(c->stream) : 201; }
static int launch(P f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned m, P s, P *args, P *x) {
    return context ? counted(s) : 201;
}
static int pointer(P value, int a, P p) {
    if (a == 3 || a == 4) *(P *)value = p;
    else *(int *)value = a == 2 ? 2 : 0; /* it is the device's memory */
    return 0;
}
static int pointers(unsigned n, int *a, P *values, P p) { while (n--) pointer(values[n], a[n], p); return 0; }
static int error_name(int e, const char **s) { *s = e == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : e == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR"; return 0; }
static int error_text(int e, const char **s) { *s = e == 2 ? "out of memory" : e == 700 ? "an illegal memory access was encountered" : "an error"; return 0; }

int cuGetProcAddress_v2(const char *wanted, P *f, int v, uint64_t flags, int *status);
#define IS(n, f) {"cu" #n, (P)f}
static const struct { const char *name; P function; } known[] = {
    IS(Init, init), IS(DriverGetVersion, version), IS(DeviceGetCount, count), IS(DeviceGet, get), IS(DeviceGetName, name),
    IS(DeviceGetUuid, uuid), IS(DeviceTotalMem, total), IS(MemGetInfo, info), IS(DeviceGetAttribute, attribute),
    IS(DevicePrimaryCtxRetain, retain), IS(DevicePrimaryCtxRelease, release), IS(CtxGetCurrent, current), IS(CtxSetCurrent, set_current),
    IS(CtxGetDevice, device_of), IS(CtxGetStreamPriorityRange, priorities), IS(CtxSynchronize, wait),
    IS(StreamCreate, stream_plain), IS(StreamCreateWithPriority, stream_new), IS(StreamDestroy, stream_end), IS(StreamSynchronize, stream_wait),
    IS(StreamQuery, yes), IS(StreamWaitEvent, yes), IS(StreamBeginCapture, capture), IS(StreamEndCapture, captured),
    IS(StreamIsCapturing, capturing), IS(ThreadExchangeStreamCaptureMode, exchange), IS(StreamGetCaptureInfo, capture_info), IS(GraphInstantiate, instantiate), IS(GraphInstantiateWithFlags, instantiate), IS(GraphLaunch, replay),
    IS(GraphDestroy, graph_end), IS(GraphExecDestroy, graph_end), IS(EventCreate, event_new), IS(EventDestroy, event_end),
    IS(EventRecord, event_record), IS(EventQuery, yes), IS(EventSynchronize, wait), IS(EventElapsedTime, event_elapsed),
    IS(MemAlloc, take), IS(MemAllocAsync, take_async), IS(MemAllocFromPoolAsync, take_from), IS(MemFree, drop), IS(MemFreeAsync, drop_async),
    IS(MemHostAlloc, pin), IS(MemFreeHost, unpin), IS(DeviceGetDefaultMemPool, pool_of), IS(DeviceGetMemPool, pool_of),
    IS(MemPoolSetAttribute, yes), IS(MemPoolGetAttribute, pool_ask), IS(MemPoolTrimTo, trim), IS(MemcpyHtoDAsync, upload),
    IS(MemcpyDtoHAsync, download), IS(MemcpyDtoDAsync, copy), IS(MemcpyAsync, copy), IS(MemsetD8Async, fill),
    IS(LibraryLoadData, library), IS(LibraryGetKernel, kernel), IS(LibraryUnload, yes), IS(KernelGetFunction, same),
    IS(KernelGetAttribute, kernel_attribute), IS(LaunchKernelEx, launch_config), IS(LaunchKernel, launch),
    IS(GetProcAddress, cuGetProcAddress_v2), IS(PointerGetAttribute, pointer), IS(PointerGetAttributes, pointers), IS(GetErrorName, error_name), IS(GetErrorString, error_text),
};

int cuGetProcAddress_v2(const char *wanted, P *f, int v, uint64_t flags, int *status) {
    *f = (P)no; /* what is unknown here is not supported */
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (!strcmp(wanted, known[k].name)) *f = known[k].function;
    if (status) *status = 0;
    return 0;
}
int cuInit(unsigned flags) { return init(flags); }
int cuDriverGetVersion(int *v) { return version(v); }
int cuDeviceGetCount(int *n) { return count(n); }
int cuGetProcAddress(const char *wanted, P *f, int v, uint64_t flags) { return cuGetProcAddress_v2(wanted, f, v, flags, 0); }
