// Package localcloud runs Pub/Sub, Spanner and Cloud Storage in this process, in memory, over their real APIs.
// The official clients work against it unchanged, by their emulator variables or by explicit endpoints.
//
// Each service has a listener of its own. Nothing is stored: when the Server closes, everything is gone.
package localcloud
