// Package admin serves localcloud's own HTTP API: faults on demand, and where everything is. A page at / shows
// the same to a person.
//
//	GET    /faults        the faults that can still strike
//	POST   /faults        adds one
//	DELETE /faults        takes all away; DELETE /faults/ID one
//	GET    /state         topics, subscriptions with their counts, rows by run and status, faults
//	GET    /state?item_id=ID[&run_id=R][&subscription=S]   and the history of that item's messages
//
// Every answer is JSON. What is wrong with a request is said in one line, {"error": "..."}, with status 400, 404
// or 405, and changes nothing. There is no authentication; pages of other sites cannot change anything, since
// their browsers say where they come from.
package admin
