/* job_container.h - the container and the pod that a process runs in, by the paths of its cgroups.
 *
 * Paths that are understood, of cgroup v1 and v2:
 *
 *   /kubepods/burstable/pod<uid>/<id>                                 kubelet with cgroupfs
 *   /kubepods.slice/.../kubepods-burstable-pod<uid>.slice/
 *       cri-containerd-<id>.scope, crio-<id>.scope, docker-<id>.scope   kubelet with systemd
 *   .../kubepods-burstable-pod<uid>.slice:cri-containerd:<id>         the two drivers mixed
 *   /docker/<id>, /system.slice/docker-<id>.scope, libpod-<id>.scope  no Kubernetes
 *
 * Before these may stand anything: kind and minikube have a node's container there, and a reader in
 * a cgroup namespace of its own sees "/../..". <id> is 64 hexadecimal digits. The uid of a pod is a
 * UUID, in the names of slices with _ instead of -, or 32 digits (static pods). */
#ifndef VW_WATCH_JOB_CONTAINER_H
#define VW_WATCH_JOB_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/watch.h"

/* Finds the ids in the text of /proc/PID/cgroup. False: it names no container and no pod. */
bool vw__job_container_parse(const char *cgroup_text, vw_job_container *out);

/* The same of a process. `proc_folder` is "/proc". */
bool vw__job_container_of(const char *proc_folder, long process, vw_job_container *out);

/* Fills in names and namespaces of the pods, by the folders <namespace>_<name>_<uid> that the
 * kubelet keeps their logs in. Where there is no such folder, they stay "". */
void vw__job_container_name_pods(const char *pod_folder, vw_job_container *const *containers,
                                 size_t count);

#endif /* VW_WATCH_JOB_CONTAINER_H */
