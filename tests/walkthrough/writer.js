// For mongosh: inserts numbered documents through the router, one after the other, until there is a document in
// demo.control. Says when one took long or failed, and in the end whether all that was acknowledged is there.
//
//   mongosh mongodb://127.0.0.1:27017/ tests/walkthrough/writer.js
const slow = 500; // ms
const demo = db.getSiblingDB('demo');
const acknowledged = [];
let failing = false;
for (let n = 0; ; n++) {
  const begin = Date.now();
  try {
    if (n % 20 === 0 && demo.control.countDocuments()) break;
    demo.ticks.insertOne({ _id: n }, { writeConcern: { w: 'majority' } });
    acknowledged.push(n);
    const took = Date.now() - begin;
    if (took > slow || failing) print(`insert ${n} took ${took} ms`);
    failing = false;
  } catch (e) {
    if (!failing) print(`insert ${n} failed: ${e.message}`); // the first one of many
    failing = true;
  }
  sleep(20);
}
const found = new Set(demo.ticks.find({}, { _id: 1 }).readConcern('majority').toArray().map(d => d._id));
const lost = acknowledged.filter(n => !found.has(n)).length;
print(`${acknowledged.length} inserts acknowledged, ${lost || 'none'} of them lost`);
