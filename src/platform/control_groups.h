/* The CPU quota of this process. */
#ifndef TH_PLATFORM_CONTROL_GROUPS_H
#define TH_PLATFORM_CONTROL_GROUPS_H

/* Returns the CPU quota of this process's control group, in processors, rounded up; INT_MAX without a quota. It is the
 * smallest quota of the group and of all groups above it, in version 1 and version 2 of control groups. `root` is a
 * prefix of /proc and of the mount points found there: "" for the machine's own. Other systems than Linux have no
 * quota. */
int th_processors_quota(const char *root);

#endif
